// SPDX-License-Identifier: MIT
// Secrets: they reach the server that they are for, and nobody else. Names of S3 objects.
#include <feedline/remote.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <stdlib.h>

#include <feedline/remote/detail/url.hpp>

#include "support/catch.hpp"
#include "support/misbehaving_server.hpp"
#include "support/remote_reads.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using fl::test::environment;
using fl::test::http_request;
using fl::test::misbehaving_server;
using fl::test::part_of;
using fl::test::problem_of;
using fl::test::quick;
using fl::test::text_of;
using connection = misbehaving_server::connection;

namespace {

/// A store that read the environment.
std::shared_ptr<fl::object_store> store_with(const std::map<std::string, std::string>& variables,
                                             fl::remote_options options = quick(2)) {
  const environment of_store(variables);
  return fl::remote(options);
}

/// What it would request for a name.
std::string url_of(const std::string& name, const std::map<std::string, std::string>& variables = {},
                   bool virtual_hosted = false) {
  const environment of_store(variables);
  return fl::detail::target_of(name, fl::detail::s3_settings::from_environment(false, virtual_hosted),
                               fl::detail::web_secrets({}))
      .url;
}

} // namespace

TEST_CASE("a store serves names of the web and of S3") {
  const auto store = fl::remote();
  for (const char* name : {"http://host/a", "https://host", "s3://bucket/key", "HTTPS://HOST/a", "S3://b/k"})
    CHECK(store->serves(name));
  for (const char* name : {"", "a.tar", "/data/a.tar", "http:/a", "https", "http://", "ftp://host/a", "s3:/a",
                           "gs://b/k", "xhttp://host/a", "file:///a", "-"})
    CHECK_FALSE(store->serves(name));
}

TEST_CASE("names are shown without secrets") {
  const auto shown = [](const std::string& name) { return fl::remote()->shown(name); };
  CHECK(shown("https://host/a.tar") == "https://host/a.tar");
  CHECK(shown("https://host:8080/a@b:c/d.tar?version=2#top") ==
        "https://host:8080/a@b:c/d.tar?version=2#top");
  CHECK(shown("https://[::1]:8080/a@b") == "https://[::1]:8080/a@b");
  CHECK(shown("https://user:hush@host/a.tar") == "https://host/a.tar");
  CHECK(shown("https://hush@host/a.tar") == "https://host/a.tar");
  CHECK(shown("https://user:hu@sh@host/a.tar?part=3") == "https://host/a.tar?part=3");
  CHECK(shown("https://user:hu/sh@host/a.tar") ==
        "https://host/a.tar"); // not a valid URL, but a likely mistake
  CHECK(shown("https://user:hu?sh@host/a.tar") == "https://host/a.tar");
  CHECK(shown("https://user:hush") == "https://user");
  CHECK(shown("https://h/a?X-Amz-Signature=hush&version=1&X-Amz-Credential=hush&token=hush&AUTH=hush#x") ==
        "https://h/a?X-Amz-Signature=…&version=1&X-Amz-Credential=…&token=…&AUTH=…#x");
  CHECK(shown("https://h/a?apikey=hush;client_secret=hush&passwd=hush&Policy=hush") ==
        "https://h/a?apikey=…;client_secret=…&passwd=…&Policy=…");
  CHECK(shown("https://h/a?s%69g=hush") == "https://h/a?s%69g=…");
  CHECK(shown("https://h/a#access_token=hush") == "https://h/a#access_token=…");
  CHECK(shown("https://h/a?hush&b=c&=d&sig=") == "https://h/a?…&b=…&=…&sig=");
  CHECK(shown("https://h/a;jsessionid=hush/b;v1;hdnts=hush?download&File=a/b-1_2.tar&path=%3Fsig%3Dhush") ==
        "https://h/a;jsessionid=…/b;v1;hdnts=…?download&File=a/b-1_2.tar&path=…");
  CHECK(shown("https://h/a?pwd=hush&pass=hush&pw=hush&jwt=hush&code=hush&hdnts=hush&keyword=hush") ==
        "https://h/a?pwd=…&pass=…&pw=…&jwt=…&code=…&hdnts=…&keyword=…");
  CHECK(shown("https://h?sig=hush") == "https://h?sig=…");
  CHECK(shown("s3://bucket/a key") == "s3://bucket/a key");
  CHECK(shown("https://host/a\nb\x1b") == "https://host/a\\x0ab\\x1b");
  CHECK(shown("https://host/ü€😀\u202egpj.tar\u0085\u2028\u2066\u061c") ==
        "https://host/ü€😀\\u202egpj.tar\\u0085\\u2028\\u2066\\u061c");
  CHECK(shown("") == "");
}

TEST_CASE("user and password are sent as basic authentication") {
  misbehaving_server server([](connection& c, const http_request& r) { c.send_range(r, "hello"); });
  const auto store = fl::remote(quick());
  CHECK(text_of(part_of(*store, "http://us%40er:pa%3Ass@" + server.host() + "/a?sig=hush")) == "hello");
  CHECK(server.requests().at(0).header("authorization") == "Basic dXNAZXI6cGE6c3M="); // us@er:pa:ss
  CHECK(server.requests().at(0).line == "GET /a?sig=hush HTTP/1.1");
  CHECK(text_of(part_of(*store, server.url())) == "hello"); // the handle and the connection are reused
  CHECK(server.requests().at(1).header("authorization").empty());
}

TEST_CASE("no message has a secret") {
  const environment none({});
  std::string nobody;
  {
    misbehaving_server gone([](connection&, const http_request&) {});
    nobody = gone.host();
  }
  misbehaving_server server([&](connection& c, const http_request& r) {
    const std::string path = r.path();
    if (path.starts_with("/404")) c.send_status("404 hush");
    else if (path.starts_with("/503")) c.send_status("503 hush");
    else if (path.starts_with("/garbage")) c.send("hush\r\n\r\n"), c.close();
    else if (path.starts_with("/moved"))
      c.send_status("302 x", "Location: http://u:hush@" + nobody + "/?sig=hush\r\n");
    else if (path.starts_with("/ftp"))
      c.send_status("302 x", "Location: ftp://u:hush@" + nobody + "/?sig=hush\r\n");
    else if (path.starts_with("/bad")) c.send_status("302 x", "Location: http://u:hush@h:port/?sig=hush\r\n");
    else if (path.starts_with("/circle")) c.send_status("302 x", "Location: " + path + "\r\n");
    else if (path.starts_with("/reset")) c.reset();
    else if (path.starts_with("/tls"))
      c.send_status("302 x", "Location: https://u:hush@" + r.header("host") + "/\r\n");
    else c.send_status("206 x", "Content-Range: hush\r\n");
  });
  const auto store = fl::remote(quick(2));
  std::vector<std::string> names{
      "http://user:hush@" + nobody + "/a?token=hush",
      "http://user:hush@" + std::string(64, 'x') + ".invalid/a?token=hush",
      "http://user:hush@[::1/a?token=hush",
      "http://user:hush@host:99999999/a?token=hush",
      "http://user:hu/sh@host/a",
      "ftp://user:hush@host/a?token=hush",
      "http://user:hush@ho st/a?token=hush",
      "https://user:hush@" + server.host() + "/a?token=hush", // doesn't speak TLS
      "s3://user:hush@bucket/key",
  };
  for (const char* path :
       {"/404", "/503", "/garbage", "/moved", "/ftp", "/bad", "/circle", "/reset", "/tls", "/206"})
    names.push_back("http://user:hush@" + server.host() + path + "?token=hush");
  for (const std::string& name : names) {
    const std::string problem = problem_of(*store, name);
    CAPTURE(name, problem);
    CHECK(problem.starts_with(store->shown(name) + ": "));
    CHECK(problem.find("hush") == std::string::npos);
    CHECK(problem.find("user") == std::string::npos);
    CHECK(problem.find("dXNlcjpodXNo") == std::string::npos); // encoded
  }
}

TEST_CASE("what a server repeats of a request isn't shown") {
  const environment none({});
  misbehaving_server server([&](connection& c, const http_request& r) {
    const std::string secrets = r.path() + " " + r.header("authorization") + " " + r.header("x-key");
    const std::string body =
        "<Error><Code>" + secrets + "</Code><Message>" + secrets + " hu+sh</Message></Error>";
    if (r.path().find("/etag") != std::string::npos)
      c.send("HTTP/1.1 206 x\r\nETag: \"" + std::to_string(r.number) + secrets +
             "\"\r\nContent-Length: 1\r\nContent-Range: bytes 0-0/1\r\n\r\nx");
    else if (r.path().find("/encoding") != std::string::npos)
      c.send("HTTP/1.1 206 x\r\nContent-Encoding: " + secrets + "\r\nContent-Length: 0\r\n\r\n");
    else if (r.path().find("/moved") != std::string::npos)
      c.send_status("302 x", "Location: /b?hdnts=hu%2Bsh\r\n");
    else c.send("HTTP/1.1 403 x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  });
  fl::remote_options options = quick(1);
  options.headers = {"X-Key: hush"};
  const auto store = fl::remote(options);
  for (const std::string path : {"/404", "/etag", "/encoding", "/moved"}) {
    const std::string name =
        "http://user:hush@" + server.host() + path + "?pwd=hush&w=hu%2Bsh;x=hush#jwt=hush";
    const std::string problem = problem_of(*store, name, 0, 1, fl::object_info{1, "\"of before\""});
    INFO(problem);
    CHECK(problem.starts_with(store->shown(name) + ": "));
    for (const char* secret : {"hush", "hu%2Bsh", "hu+sh", "dXNlcjpodXNo"})
      CHECK(problem.find(secret) == std::string::npos);
  }
}

TEST_CASE("a proxy's password isn't shown, and its answer isn't taken for the server's") {
  misbehaving_server server([](connection& c, const http_request&) {
    c.send("HTTP/1.1 200 hush\r\n\r\n");
    c.close();
  });
  for (const std::string& proxy : {"http://user:hush@" + server.host(), std::string("http://user:hush@a:b:c"),
                                   std::string("gopher://user:hush@127.0.0.1")}) {
    const environment of_proxy({{"https_proxy", proxy}, {"no_proxy", ""}});
    const std::string problem = problem_of(*fl::remote(quick(2)), "https://host/a");
    CAPTURE(problem);
    CHECK(problem.starts_with("https://host/a: can't connect ("));
    CHECK(problem.ends_with("), at offset 0; tried 2 times"));
    CHECK(problem.find("hush") == std::string::npos);
  }
  CHECK(server.requests().at(0).line == "CONNECT host:443 HTTP/1.1");
}

TEST_CASE("requests that libcurl refuses fail, and the next have their turn") {
  auto options = quick();
  options.in_flight = 1;
  const auto store =
      store_with({{"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", std::string(9'000'000, 'x')}},
                 options); // longer than libcurl takes
  std::vector<std::unique_ptr<fl::object_read>> reads;
  for (std::size_t i = 0; i < 3; ++i) reads.push_back(store->read("s3://bucket/key", i * 1'000'000, 10, {}));
  for (const auto& read : reads)
    CHECK(fl::test::throws_saying<fl::outage_error>("s3://bucket/key: libcurl can't do what is needed: ",
                                                    [&] { static_cast<void>(read->get({})); }));
}

TEST_CASE("names that aren't URLs are explained") {
  const auto store = fl::remote(quick());
  const auto problem = [&](const std::string& name) { return problem_of(*store, name); };
  CHECK(problem("http://host:port/a") ==
        "http://host: isn't a valid URL; special characters must be percent-encoded");
  CHECK(problem("a.tar") == "a.tar: doesn't begin with http://, https:// or s3://");
  CHECK(problem("s3://bucket") == "s3://bucket: isn't a name of an S3 object, s3://bucket/key");
  CHECK(problem("s3://bucket/") == "s3://bucket/: isn't a name of an S3 object, s3://bucket/key");
  CHECK(problem("s3:///key") == "s3:///key: isn't a name of an S3 object, s3://bucket/key");
  CHECK(problem("s3://evil.com%2f/key") ==
        "s3://evil.com%2f/key: isn't a name of an S3 object, s3://bucket/key");
  CHECK(problem(std::string("http://host/a\0b", 15)) ==
        "http://host/a\\x00b: isn't a valid URL: it has a zero byte");
}

TEST_CASE("URLs are requested as they are written, but for characters that can't be sent") {
  CHECK(url_of("https://host/a%20b/../c+d.tar?e=f%2F") == "https://host/c+d.tar?e=f%2F");
  CHECK(url_of("HTTPS://user:hush@host:80/a b/ü.tar") == "https://host:80/a%20b/%c3%bc.tar");
}

TEST_CASE("S3 objects have URLs of Amazon's servers or of others") {
  CHECK(url_of("s3://bucket/a/b.tar") == "https://bucket.s3.us-east-1.amazonaws.com/a/b.tar");
  CHECK(url_of("S3://bucket/k", {{"AWS_REGION", "eu-west-1"}}) ==
        "https://bucket.s3.eu-west-1.amazonaws.com/k");
  CHECK(url_of("s3://bucket/k", {{"AWS_DEFAULT_REGION", "eu-west-2"}}) ==
        "https://bucket.s3.eu-west-2.amazonaws.com/k");
  CHECK(url_of("s3://bucket/k", {{"AWS_REGION", "cn-north-1"}}) ==
        "https://bucket.s3.cn-north-1.amazonaws.com.cn/k");
  CHECK(url_of("s3://my.bucket/k") == "https://s3.us-east-1.amazonaws.com/my.bucket/k");
  CHECK(url_of("s3://Old_Bucket/k") == "https://s3.us-east-1.amazonaws.com/Old_Bucket/k");
  CHECK(url_of("s3://bucket/k", {{"AWS_ENDPOINT_URL", "http://minio:9000/"}}) ==
        "http://minio:9000/bucket/k");
  CHECK(url_of("s3://bucket/k",
               {{"AWS_ENDPOINT_URL", "http://no"}, {"AWS_ENDPOINT_URL_S3", "https://yes/base"}}) ==
        "https://yes/base/bucket/k");
  CHECK(url_of("s3://bucket/a b+c/ü?#%/../~.tar") ==
        "https://bucket.s3.us-east-1.amazonaws.com/a%20b%2Bc/%C3%BC%3F%23%25/../~.tar");
  CHECK(url_of("s3://my.bucket/a/k", {{"AWS_ENDPOINT_URL", "https://oss.example.com/"}}, true) ==
        "https://my.bucket.oss.example.com/a/k");
  CHECK(url_of("s3://my.bucket/k", {}, true) == "https://s3.us-east-1.amazonaws.com/my.bucket/k");
  CHECK(problem_of(*store_with({{"AWS_ENDPOINT_URL", "minio:9000"}}), "s3://bucket/k") ==
        "s3://bucket/k: AWS_ENDPOINT_URL doesn't begin with http:// or https://");
}

TEST_CASE("requests to S3 are signed with the environment's keys") {
  misbehaving_server server([](connection& c, const http_request& r) { c.send_range(r, "hello"); });
  const auto store = store_with({{"AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"},
                                 {"AWS_SECRET_ACCESS_KEY", "hush/hush+hush"},
                                 {"AWS_SESSION_TOKEN", "a-token"},
                                 {"AWS_REGION", "eu-west-1"},
                                 {"AWS_ENDPOINT_URL", server.url("")}});
  CHECK(text_of(part_of(*store, "s3://bucket/a b/../c.tar", 1, 3)) == "ell");
  const auto request = server.requests().at(0);
  CHECK(request.line == "GET /bucket/a%20b/../c.tar HTTP/1.1");
  CHECK(request.header("range") == "bytes=1-3");
  CHECK(request.header("x-amz-security-token") == "a-token");
  CHECK(request.header("x-amz-content-sha256") ==
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(request.header("x-amz-date").size() == 16);
  const std::string signature = request.header("authorization");
  CHECK(signature.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"));
  CHECK(signature.find("/eu-west-1/s3/aws4_request") != std::string::npos);
  CHECK(signature.find("x-amz-security-token") != std::string::npos);

  CHECK(text_of(part_of(*store, server.url())) == "hello"); // another server gets nothing of it
  CHECK(server.requests().at(1).header("authorization").empty());
  CHECK(server.requests().at(1).header("x-amz-security-token").empty());
}

TEST_CASE("requests to S3 aren't signed without keys, or if the user says so") {
  misbehaving_server server([](connection& c, const http_request& r) { c.send_range(r, "hello"); });
  auto anonymous = quick();
  anonymous.anonymous = true;
  for (const auto& store : {store_with({{"AWS_ENDPOINT_URL", server.url("")}}),
                            store_with({{"AWS_ENDPOINT_URL", server.url("")}, {"AWS_ACCESS_KEY_ID", "half"}}),
                            store_with({{"AWS_ENDPOINT_URL", server.url("")},
                                        {"AWS_ACCESS_KEY_ID", "A"},
                                        {"AWS_SECRET_ACCESS_KEY", "B"},
                                        {"AWS_SESSION_TOKEN", "C"}},
                                       anonymous)}) {
    CHECK(text_of(part_of(*store, "s3://bucket/k")) == "hello");
    CHECK(server.requests().back().header("authorization").empty());
    CHECK(server.requests().back().header("x-amz-security-token").empty());
  }
}

TEST_CASE("an endpoint that takes the bucket in its name gets it there") {
  misbehaving_server proxy([](connection& c, const http_request& r) { c.send_range(r, "hello"); });
  auto options = quick(2);
  options.virtual_hosted = true;
  const auto store = store_with({{"AWS_ENDPOINT_URL", "http://oss.example.com"}}, options);
  ::unsetenv("no_proxy");
  ::setenv("http_proxy", ("http://" + proxy.host()).c_str(), 1);
  CHECK(text_of(part_of(*store, "s3://bucket/k")) == "hello");
  ::unsetenv("http_proxy");
  ::setenv("no_proxy", "*", 1);
  CHECK(proxy.requests().at(0).line == "GET http://bucket.oss.example.com/k HTTP/1.1");
  CHECK(proxy.requests().at(0).header("host") == "bucket.oss.example.com");
}

TEST_CASE("the message of S3 about an error doesn't repeat secrets") {
  const std::string token(800, 't'); // longer than a message is shown
  misbehaving_server server([&](connection& c, const http_request&) {
    const std::string body =
        "<Error><Code>InvalidToken</Code><Message>bad " + token + " for hush&amp;hush</Message></Error>";
    c.send("HTTP/1.1 400 x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  });
  const auto store = store_with({{"AWS_ENDPOINT_URL", server.url("")},
                                 {"AWS_ACCESS_KEY_ID", "A"},
                                 {"AWS_SECRET_ACCESS_KEY", "hush&hush"},
                                 {"AWS_SESSION_TOKEN", token}});
  CHECK(problem_of(*store, "s3://bucket/k") ==
        "s3://bucket/k: status 400 Bad Request (InvalidToken: bad … for …) at offset 0");
  CHECK(problem_of(*store, "s3://bucket/other").find("InvalidToken") != std::string::npos);
}

TEST_CASE("a secret may consist of the bytes that replace it") {
  misbehaving_server server([](connection& c, const http_request&) {
    const std::string body = "<Error><Code>A</Code><Message>\xe2\x80\xa6 \xe2 \x80\xa6</Message></Error>";
    c.send("HTTP/1.1 400 x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  });
  for (const std::string secret : {"\xe2\x80\xa6", "\x80\xa6"}) {
    const auto store = store_with({{"AWS_ENDPOINT_URL", server.url("")},
                                   {"AWS_ACCESS_KEY_ID", "A"},
                                   {"AWS_SECRET_ACCESS_KEY", secret}});
    CHECK(problem_of(*store, "s3://bucket/k").find("status 400") != std::string::npos);
  }
}

TEST_CASE("S3's refusal of a token or of the clock ends the run, as it concerns every object") {
  for (const auto& [status, code] :
       {std::pair<std::string, std::string>{"400", "ExpiredToken"}, {"403", "RequestTimeTooSkewed"}}) {
    misbehaving_server server([&](connection& c, const http_request&) {
      const std::string body = "<Error><Code>" + code + "</Code><Message>no</Message></Error>";
      c.send("HTTP/1.1 " + status + " x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
             body);
    });
    std::string notice;
    fl::remote_options options;
    options.on_notice = [&](const std::string& sentence) { notice = sentence; };
    const auto store = store_with(
        {{"AWS_ENDPOINT_URL", server.url("")}, {"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", "hush"}},
        options);
    CHECK_THROWS_AS(part_of(*store, "s3://bucket/k"), fl::outage_error);
    CHECK(server.requests().size() == 1);
    CHECK(notice.starts_with("feedline::remote: a server can't be used, and the run ends: s3://bucket/k: "));
    CHECK(notice.find(code) != std::string::npos);
  }
}

TEST_CASE("a refusal of S3 says what may be missing, without the keys") {
  misbehaving_server server([](connection& c, const http_request& r) {
    if (r.path() == "/bucket/elsewhere")
      c.send_status("301 x", "x-amz-bucket-region: eu-west-3\r\nLocation: http://127.0.0.1:1/\r\n");
    else c.send_status("403 x");
  });
  const auto unsigned_store = store_with({{"AWS_ENDPOINT_URL", server.url("")}});
  CHECK(problem_of(*unsigned_store, "s3://bucket/k") ==
        "s3://bucket/k: status 403 Forbidden (the request wasn't signed: AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY aren't both set; no web identity (AWS_WEB_IDENTITY_TOKEN_FILE); no keys of "
        "the profile "
        "`default` in /dev/null or /dev/null; no container (AWS_CONTAINER_CREDENTIALS_FULL_URI); "
        "AWS_EC2_METADATA_DISABLED is set) at offset 0");
  const auto store = store_with({{"AWS_ENDPOINT_URL", server.url("")},
                                 {"AWS_ACCESS_KEY_ID", "hush"},
                                 {"AWS_SECRET_ACCESS_KEY", "hush"},
                                 {"AWS_SESSION_TOKEN", "hush"}});
  CHECK(problem_of(*store, "s3://bucket/k") == "s3://bucket/k: status 403 Forbidden at offset 0");
  CHECK(problem_of(*store, "s3://bucket/elsewhere") ==
        "s3://bucket/elsewhere: status 301 Moved Permanently (the bucket's region is eu-west-3, set "
        "AWS_REGION) at offset 0");
}
