// SPDX-License-Identifier: MIT
// Keys of S3 from the places where other programs for AWS find them, with servers that stand for those of AWS.
#include <feedline/remote/detail/aws_keys.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/core/random.hpp>
#include <feedline/remote.hpp>

#include "support/catch.hpp"
#include "support/misbehaving_server.hpp"
#include "support/remote_reads.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using fl::detail::add_ini_section;
using fl::detail::json_texts;
using fl::detail::parse_utc;
using fl::detail::text_map;
using fl::detail::xml_text;
using fl::test::environment;
using fl::test::http_request;
using fl::test::misbehaving_server;
using fl::test::part_of;
using fl::test::problem_of;
using fl::test::quick;
using fl::test::temporary_folder;
using fl::test::text_of;
using fl::test::throws_saying;
using connection = misbehaving_server::connection;
using variables = std::map<std::string, std::string>;

namespace {

const std::string config =
    "# comment\n[default]\nregion=eu-west-1 ; inline\n\n[profile  a b]\r\nRegion = eu-west-2\r\n"
    "s3 =\n  addressing_style = path\n  region = no\noutput\n[profile c]\n";
const std::string json =
    R"({ "Code" : "Success", "AccessKeyId":"JSON","SecretAccessKey":"s\/\u0041\n","n":[1,{"a":"]"}],"t":true,"x":-1.5E3,)"
    R"("Token":"tok","Expiration":"2100-01-01T00:00:00Z"})";
const std::string xml =
    "<AssumeRoleWithWebIdentityResponse "
    "xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult>"
    "<Credentials><AccessKeyId>XML</AccessKeyId><SecretAccessKey> a&amp;b "
    "</SecretAccessKey><SessionToken>tok</SessionToken>"
    "<Expiration>2100-01-01T00:00:00.123Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
    "</AssumeRoleWithWebIdentityResponse>";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

bool send_body(connection& c, const std::string& body, const std::string& status = "200 OK") {
  return c.send("HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                body);
}

/// What stands for S3 and for a server of keys, whose answers it takes from a table of paths.
struct aws {
  variables with(variables more = {}) const {
    more["AWS_ENDPOINT_URL_S3"] = server.url("");
    return more;
  }

  /// Reads an object, and returns the access key that signed the request and its session token; or the problem.
  std::string signer(const variables& more, fl::remote_options options = quick(2)) const {
    const environment of_store(with(more));
    const auto store = fl::remote(options);
    if (const std::string problem = problem_of(*store, "s3://bucket/k"); !problem.empty())
      return problem.substr(problem.find(": ") + 2);
    return signer_of(server.requests().back());
  }

  static std::string signer_of(const http_request& r) {
    const std::string text = r.header("authorization");
    constexpr std::string_view begin = "AWS4-HMAC-SHA256 Credential=";
    if (!text.starts_with(begin)) return "nobody";
    return text.substr(begin.size(), text.find('/') - begin.size()) + " " + r.header("x-amz-security-token");
  }

  std::map<std::string, std::string> answers{}; // by method and path; a status comes before " | "
  misbehaving_server server{[this](connection& c, const http_request& r) {
    const std::string request = r.line.substr(0, r.line.rfind(' '));
    const auto found = answers.find(request);
    if (found == answers.end()) {
      if (request == "GET /bucket/k") c.send_range(r, "hello");
      else send_body(c, "", "404 x");
      return;
    }
    const std::size_t bar = found->second.find(" | ");
    if (bar == std::string::npos) send_body(c, found->second);
    else send_body(c, found->second.substr(bar + 3), found->second.substr(0, bar));
    if (r.header("content-length") != "") c.close(); // it hasn't read the body
  }};
};

} // namespace

TEST_CASE("a section of an INI file has the settings of its lines") {
  const auto section = [](std::string_view text, const char* name) {
    text_map settings;
    const bool has = add_ini_section(text, name, settings);
    return std::pair(has, settings);
  };
  CHECK(section(config, "default") == std::pair(true, text_map{{"region", "eu-west-1"}}));
  CHECK(section(config, "profile a b") == std::pair(true, text_map{{"region", "eu-west-2"}, {"s3", ""}}));
  CHECK(section(config, "profile c") == std::pair(true, text_map{}));
  CHECK(section(config, "c") == std::pair(false, text_map{}));
  CHECK(section("[a]\nk=1\n[b]\nk=2\n[ a ]\nk = 3=4\n", "a") == std::pair(true, text_map{{"k", "3=4"}}));
  CHECK(section("[a]\nk=x#y;z # no\n;k=2\n#k=3", "a") == std::pair(true, text_map{{"k", "x#y;z"}}));
  for (const char* text : {"", "[", "]", "[a", "k=1", "=\n[\n"})
    CHECK(section(text, "b") == std::pair(false, text_map{}));
}

TEST_CASE("the texts of a JSON object are read, and what isn't JSON is refused") {
  const auto texts = json_texts(json);
  REQUIRE(texts);
  CHECK(*texts == text_map{{"Code", "Success"},
                           {"AccessKeyId", "JSON"},
                           {"SecretAccessKey", "s/A\n"},
                           {"Token", "tok"},
                           {"Expiration", "2100-01-01T00:00:00Z"}});
  CHECK(json_texts(" {} ") == text_map{});
  CHECK(json_texts("{\"\\u00e4\":\"ä\"}") == text_map{{"?", "??"}});
  for (const char* text : {"",
                           "{",
                           "}",
                           "[]",
                           "\"a\"",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":\"b\"",
                           "{\"a\":\"b\",}",
                           "{\"a\":\"b\"}x",
                           "{,\"a\":1}",
                           "{\"a\":\"b\nc\"}",
                           "{\"a\":\"\\x\"}",
                           "{\"a\":\"\\u12g4\"}",
                           "{\"a\":\"\\u1",
                           "{\"a\":\"\\",
                           "{\"a\":[1,{\"b\":[}",
                           "{\"a\" \"b\"}",
                           "{a:1}",
                           "{\"a\":@}"})
    CHECK_FALSE(json_texts(text));
}

TEST_CASE("the text of an XML element is read if it has nothing else in it") {
  CHECK(xml_text(xml, "AccessKeyId") == "XML");
  CHECK(xml_text(xml, "SecretAccessKey") == "a&b");
  CHECK(xml_text("<a></a>", "a") == "");
  for (const char* text :
       {"", "<a>", "<a>b", "<a>b<", "<a>b</", "<a>b</b>", "<a>b<c/></a>", "<A>b</A>", "a>b</a>"})
    CHECK_FALSE(xml_text(text, "a"));
}

TEST_CASE("a time of UTC is read, and nothing else") {
  using namespace std::chrono;
  CHECK(parse_utc("1970-01-02T03:04:05Z") == system_clock::time_point(days(1) + 3h + 4min + 5s));
  CHECK(parse_utc("2024-02-29T23:59:60.123456789Z").has_value());
  for (const char* text :
       {"", "Z", "1970-01-02T03:04:05", "1970-01-02T03:04:05+00:00", "2023-02-29T00:00:00Z",
        "1970-01-02 03:04:05Z", "1970-13-02T03:04:05Z", "1970-01-02T24:04:05Z", "197a-01-02T03:04:05Z",
        "1970-01-02T03:60:05Z", "1970-01-02T03:04:61Z", "1970-01-02T03:04:05.Z", "1969-01-02T03:04:05Z",
        "9999-01-02T03:04:05Z", "1970-01-02T03:04:05.x1Z"})
    CHECK_FALSE(parse_utc(text));
}

TEST_CASE("damaged settings and answers are read without harm") {
  fl::random_generator random(7);
  for (const std::string& text : {config, json, xml}) {
    for (int i = 0; i < 3000; ++i) {
      std::string damaged = text;
      for (std::uint64_t n = random.below(4) + 1; n > 0 && !damaged.empty(); --n) {
        const auto at = static_cast<std::size_t>(random.below(damaged.size()));
        switch (random.below(4)) {
        case 0:
          damaged[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          damaged.erase(at, static_cast<std::size_t>(random.below(20)));
          break;
        case 2:
          damaged.insert(at, 1, "\"\\[]{}<>=#\n \0,:"[random.below(16)]);
          break;
        default:
          damaged.resize(at);
        }
      }
      text_map settings;
      add_ini_section(damaged, "default", settings);
      static_cast<void>(json_texts(damaged));
      static_cast<void>(parse_utc(damaged));
      if (const auto value = xml_text(damaged, "AccessKeyId")) CHECK(value->size() < damaged.size());
    }
  }
}

TEST_CASE("keys and region come from the shared files, and those of the environment come first") {
  aws all;
  const temporary_folder home;
  home.write("credentials",
             "[default]\naws_access_key_id = FILE\naws_secret_access_key = hush\n[both]\n"
             "aws_access_key_id=CRED\naws_secret_access_key=hush\naws_session_token=tok\n"
             "[half]\naws_access_key_id=HALF\n[bad]\naws_access_key_id=B\naws_secret_access_key=h\n"
             "aws_session_token=hu sh\n");
  home.write("config",
             "[default]\nregion = eu-west-3\n[profile both]\naws_access_key_id=CONF\nregion=eu-west-4\n"
             "[profile conf]\naws_access_key_id=CONF\naws_secret_access_key=hush\n"
             "[profile sso]\nsso_session = x\n[profile role]\nrole_arn = r\naws_access_key_id=ROLE\n"
             "aws_secret_access_key=hush\n");
  const auto signer = [&](variables more) {
    more.emplace("AWS_SHARED_CREDENTIALS_FILE", home.path() + "/credentials");
    more.emplace("AWS_CONFIG_FILE", home.path() + "/config");
    return all.signer(more);
  };
  CHECK(signer({}) == "FILE ");
  CHECK(all.server.requests().back().header("authorization").find("/eu-west-3/s3/") != std::string::npos);
  CHECK(signer({{"AWS_PROFILE", "both"}, {"AWS_DEFAULT_REGION", "eu-west-9"}}) == "CRED tok");
  CHECK(all.server.requests().back().header("authorization").find("/eu-west-9/s3/") != std::string::npos);
  CHECK(signer({{"AWS_PROFILE", "conf"}}) == "CONF ");
  CHECK(signer({{"AWS_ACCESS_KEY_ID", "ENV"}, {"AWS_SECRET_ACCESS_KEY", "hush"}}) == "ENV ");
  CHECK(signer({{"AWS_ACCESS_KEY_ID", "half"}}) == "FILE ");
  CHECK(signer({{"AWS_PROFILE", "none"}}) ==
        "no keys of S3 from shared files: no keys of the profile `none` in " + home.path() +
            "/credentials or " + home.path() + "/config, at offset 0");
  CHECK(signer({{"AWS_PROFILE", "sso"}})
            .find("shared files: the profile `sso` has sso_session, which isn't supported") !=
        std::string::npos);
  CHECK(signer({{"AWS_PROFILE", "role"}})
            .find("shared files: the profile `role` has role_arn, which isn't supported") !=
        std::string::npos);
  for (const char* profile : {"half", "bad"}) {
    const std::string problem = signer({{"AWS_PROFILE", profile}});
    CHECK(problem == "no keys of S3 from shared files: a key or token is missing, or has characters that "
                     "keys don't have, at "
                     "offset 0");
  }
  CHECK(throws_saying<std::invalid_argument>("AWS_ACCESS_KEY_ID or AWS_SESSION_TOKEN has characters", [&] {
    signer({{"AWS_ACCESS_KEY_ID", "E\nX: y"}, {"AWS_SECRET_ACCESS_KEY", "hush"}});
  }));
}

TEST_CASE("a file of keys in the home folder is found, and read again when S3 says that they have expired") {
  const temporary_folder home;
  const auto write = [&](const std::string& key) {
    home.write(".aws/credentials", "[default]\naws_access_key_id=" + key + "\naws_secret_access_key=hush\n");
  };
  std::filesystem::create_directory(home / ".aws");
  write("OLD");
  misbehaving_server server([&](connection& c, const http_request& r) {
    if (aws::signer_of(r) != "OLD ") c.send_range(r, "hello");
    else write("NEW"), send_body(c, "<Error><Code>ExpiredToken</Code></Error>", "400 x");
  });
  const environment of_store({{"AWS_ENDPOINT_URL", server.url("")}, {"HOME", home.path()}});
  ::unsetenv("AWS_SHARED_CREDENTIALS_FILE");
  const auto store = fl::remote(quick());
  CHECK(text_of(part_of(*store, "s3://bucket/k")) == "hello");
  CHECK(server.requests().size() == 2);
  write("OLD");
  const auto again = fl::remote(quick());
  misbehaving_server never([&](connection& c, const http_request&) {
    send_body(c, "<Error><Code>ExpiredToken</Code></Error>", "400 x");
  });
  ::setenv("AWS_ENDPOINT_URL", never.url("").c_str(), 1);
  CHECK_THROWS_AS(part_of(*fl::remote(quick()), "s3://bucket/k"), fl::outage_error);
  CHECK(never.requests().size() == 2); // other keys are tried once
}

TEST_CASE("keys come from the server of a container, which gets the token of a file") {
  aws all;
  const temporary_folder folder;
  folder.write("token", "Basic hush\n");
  folder.write("short", "hush\n");
  folder.write("empty", "\n");
  all.answers["GET /keys"] = replaced(json, R"(s\/\u0041\n)", "hush");
  const std::string url = all.server.url("/keys");
  CHECK(all.signer({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url},
                    {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "no"},
                    {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", folder.path() + "/short"}}) == "JSON tok");
  CHECK(all.server.requests().at(0).header("authorization") == "hush");
  CHECK(all.signer({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url},
                    {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic hush"}}) == "JSON tok");
  CHECK(all.server.requests().at(2).header("authorization") == "Basic hush");
  const auto problem = [&](const variables& more) { return all.signer(more); };
  for (const char* far : {"http://example.org/keys", "http://localhost.example.org/",
                          "http://127.example.org/", "ftp://localhost/", "x"})
    CHECK(problem({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", far}}) ==
          "no keys of S3 from container: AWS_CONTAINER_CREDENTIALS_FULL_URI must begin with https:// or be "
          "on this machine, at "
          "offset 0");
  CHECK(problem({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url},
                 {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/none"}}) ==
        "no keys of S3 from container: `/none` can't be read: No such file or directory, at offset 0");
  CHECK(problem({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url},
                 {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", folder.path() + "/empty"}}) ==
        "no keys of S3 from container: `" + folder.path() +
            "/empty` is empty or can't be read, at offset 0; tried 2 times");
  CHECK(problem({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url},
                 {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", folder.path()}})
            .starts_with("no keys of S3 from container: `" + folder.path() + "` "));
  CHECK(problem({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url},
                 {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "hush\r\nX: y"}}) ==
        "no keys of S3 from container: the token has characters that can't be sent in a header, at offset 0");
  const std::vector<std::pair<std::string, std::string>> answers{
      {"403 x | hush", "status 403 Forbidden"},
      {"500 x | ", "status 500 Internal Server Error"},
      {"302 x | ", "status 302 Found"},
      {"<html>", "the answer isn't JSON"},
      {"{}", "a key or token is missing, or has characters that keys don't have"},
      {R"({"AccessKeyId":"A","SecretAccessKey":"hush","Token":"t\r\nX: y"})",
       "a key or token is missing, or has characters that keys don't have"},
      {R"({"AccessKeyId":"A","SecretAccessKey":"hush","Expiration":"soon"})",
       "the answer's Expiration isn't a time"},
      {R"({"AccessKeyId":"A","SecretAccessKey":"hush","Expiration":"2001-01-01T00:00:00Z"})",
       "the keys or the token that were found have expired already (is this machine's clock right?)"},
      {R"({"Code":"Failed\n"})", "the answer's Code is `Failed\\x0a`"},
      {std::string(100'000, ' '), "the answer exceeds 64 KiB"},
  };
  for (const auto& [answer, words] : answers) {
    all.answers["GET /keys"] = answer;
    const std::string said = problem({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url}});
    CAPTURE(said);
    CHECK(said.find(words + ", at offset 0") != std::string::npos);
    CHECK(said.find("hush") == std::string::npos);
  }
}

TEST_CASE("keys come from the metadata of the instance, by a token") {
  aws all;
  all.answers["PUT /latest/api/token"] = "the-token";
  all.answers["GET /latest/meta-data/iam/security-credentials/"] = "a role\nb";
  all.answers["GET /latest/meta-data/iam/security-credentials/a%20role"] = json;
  const variables enabled{{"AWS_EC2_METADATA_DISABLED", "False"},
                          {"AWS_EC2_METADATA_SERVICE_ENDPOINT", all.server.url("/")}};
  CHECK(all.signer(enabled) == "JSON tok");
  CHECK(all.server.requests().at(0).header("x-aws-ec2-metadata-token-ttl-seconds") == "21600");
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    CHECK(all.server.requests().at(i).header("x-aws-ec2-metadata-token") == "the-token");
  CHECK(all.server.requests().size() == 4);
  all.answers["PUT /latest/api/token"] = "503 x | ";
  CHECK(all.signer(enabled).find("no keys of S3 from instance metadata: status 503 Service Unavailable, at "
                                 "offset 0; tried 2 times") == 0);
  all.answers["PUT /latest/api/token"] = "429 x | ";
  CHECK(all.signer(enabled).find("status 429 Too Many Requests, at offset 0; tried 2 times") !=
        std::string::npos);
  for (const char* answer : {"403 x | ", "404 x | "}) {
    all.answers["PUT /latest/api/token"] = answer;
    CHECK(all.signer(enabled) == "nobody");
  }
  all.answers["PUT /latest/api/token"] = "the-token";
  all.answers["GET /latest/meta-data/iam/security-credentials/"] = "404 x | ";
  CHECK(all.signer(enabled) == "nobody");
  all.answers["GET /latest/meta-data/iam/security-credentials/"] = "../../x";
  CHECK(all.signer(enabled).find("status 404 Not Found") != std::string::npos);
  CHECK(all.server.requests().back().path() == "/latest/meta-data/iam/security-credentials/..%2F..%2Fx");
  CHECK(all.signer({{"AWS_EC2_METADATA_DISABLED", ""},
                    {"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1"}}) == "nobody");
}

TEST_CASE("a failure of the instance's metadata leaves a store without keys only for a while") {
  std::atomic<int> asked = 0;
  misbehaving_server server([&](connection& c, const http_request& r) {
    const std::string path = r.path();
    if (path == "/latest/api/token") {
      const int number = ++asked;
      number == 1 || number == 3 ? c.close() : void(send_body(c, "t", number == 2 ? "404 x" : "200 OK"));
    } else if (path == "/latest/meta-data/iam/security-credentials/") {
      send_body(c, "role");
    } else if (path.starts_with("/latest/")) {
      send_body(c, json);
    } else if (aws::signer_of(r) == "nobody" && path == "/bucket/k") {
      send_body(c, "<Error><Code>AccessDenied</Code></Error>", "403 x");
    } else {
      c.send_range(r, "hello");
    }
  });
  const environment of_store({{"AWS_ENDPOINT_URL", server.url("")},
                              {"AWS_EC2_METADATA_DISABLED", "false"},
                              {"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url("")}});
  const auto store = fl::remote(quick(1));
  CHECK(text_of(part_of(*store, "s3://bucket/public")) == "hello");
  CHECK(asked == 2);                                           // the first time the connection broke
  CHECK(text_of(part_of(*store, "s3://bucket/k")) == "hello"); // after a refusal
  CHECK(aws::signer_of(server.requests().back()) == "JSON tok");
  CHECK(asked == 4);

  ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  const auto none = fl::detail::aws_key_finder(fl::detail::aws_settings())({});
  CHECK(none.user.empty());
  CHECK(none.expires <= std::chrono::system_clock::now() + std::chrono::minutes(1));
}

TEST_CASE("keys come from a web identity") {
  aws all;
  const temporary_folder folder;
  folder.write("token", "a.b+c/d\n");
  all.answers["POST /"] = xml;
  const variables identity{{"AWS_WEB_IDENTITY_TOKEN_FILE", folder.path() + "/token"},
                           {"AWS_ROLE_ARN", "arn:aws:iam::1:role/r"},
                           {"AWS_ENDPOINT_URL_STS", all.server.url("")}};
  CHECK(all.signer(identity) == "XML tok");
  const auto request = all.server.requests().at(0);
  CHECK(request.header("content-type") == "application/x-www-form-urlencoded");
  CHECK(
      request.header("content-length") ==
      std::to_string(
          std::string(
              "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"
              "&RoleSessionName=feedline&WebIdentityToken=a.b%2Bc%2Fd")
              .size()));
  variables wrong = identity;
  wrong.erase("AWS_ROLE_ARN");
  CHECK(all.signer(wrong) == "no keys of S3 from web identity: AWS_ROLE_ARN isn't set, at offset 0");
  folder.write("config", "[default]\nrole_arn = r\nweb_identity_token_file = " + folder.path() + "/token\n");
  CHECK(all.signer({{"AWS_CONFIG_FILE", folder.path() + "/config"},
                    {"AWS_ENDPOINT_URL_STS", all.server.url("")}}) == "XML tok");
  const std::string token(800, 't'); // longer than a message is shown
  folder.write("token", token);
  const std::vector<std::pair<std::string, std::string>> answers{
      {"400 x | <ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>bad " + token +
           "</Message></Error></ErrorResponse>",
       "status 400 Bad Request (InvalidIdentityToken: bad …), at offset 0"},
      {"hush", "has no Credentials"},
      {"</Credentials><Credentials>", "has no Credentials"},
      {replaced(xml, "<AccessKeyId>", "<AccessKeyId><b/>"), "a key or token is missing"},
      {replaced(xml, "tok<", "t\nX: y<"), "a key or token is missing"},
      {replaced(xml, "2100", "x"), "the answer's Expiration isn't a time"},
  };
  for (const auto& [answer, words] : answers) {
    all.answers["POST /"] = answer;
    const std::string said = all.signer(identity);
    CAPTURE(said);
    CHECK(said.starts_with("no keys of S3 from web identity: "));
    CHECK(said.find(words) != std::string::npos);
  }
  all.answers["POST /"] = xml;
  CHECK(all.signer({{"AWS_ACCESS_KEY_ID", "ENV"},
                    {"AWS_SECRET_ACCESS_KEY", "x"},
                    {"AWS_WEB_IDENTITY_TOKEN_FILE", "/none"}}) == "ENV ");
}

TEST_CASE("keys that expire during a run are renewed, while an outage of their server is tried again") {
  std::atomic<int> asked = 0;
  misbehaving_server server([&](connection& c, const http_request& r) {
    if (r.path() != "/keys") {
      if (aws::signer_of(r) == "KEY1 ") send_body(c, "<Error><Code>ExpiredToken</Code></Error>", "400 x");
      else c.send_range(r, "hello");
    } else if (++asked == 2) {
      send_body(c, "", "503 x");
    } else {
      send_body(c, R"({"AccessKeyId":"KEY)" + std::to_string(asked) + R"(","SecretAccessKey":"hush"})");
    }
  });
  const environment of_store(
      {{"AWS_ENDPOINT_URL", server.url("")}, {"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url("/keys")}});
  const auto store = fl::remote(quick());
  CHECK(text_of(part_of(*store, "s3://bucket/k")) == "hello");
  CHECK(aws::signer_of(server.requests().back()) == "KEY3 ");
  CHECK(text_of(part_of(*store, "s3://bucket/k")) == "hello");
  CHECK(asked == 3);
}
