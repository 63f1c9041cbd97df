// SPDX-License-Identifier: MIT
// Reads libFuzzer's bytes as what servers and files of AWS say: profiles, keys, errors, names, and the heads and bodies of
// answers to a request, several attempts one after another. Start it with such texts as the corpus.
#include <feedline/remote.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/remote/detail/aws_keys.hpp>
#include <feedline/remote/detail/http_answer.hpp>
#include <feedline/remote/detail/part_ticket.hpp>
#include <feedline/remote/detail/transfer.hpp>
#include <feedline/remote/detail/url.hpp>

#include "support/expect.hpp"

namespace fl = feedline;
namespace detail = feedline::detail;
using feedline::test::expect;

namespace {

constexpr std::string_view secret = "x7Qp2v";

void expect_hidden(std::string_view message) { expect(message.find(secret) == message.npos); }

void read_small_texts(std::string_view text) {
  for (const std::string_view section : {"default", "profile x"}) {
    detail::text_map settings;
    expect(detail::add_ini_section(text, section, settings) || settings.empty());
  }
  if (const auto texts = detail::json_texts(text))
    for (const auto& [name, value] : *texts) expect(name.size() + value.size() < text.size());
  for (const std::string_view name : {"AccessKeyId", "Expiration"})
    if (const auto found = detail::xml_text(text, name)) expect(found->size() < text.size());
  if (const auto time = detail::parse_utc(text)) expect(time->time_since_epoch() >= std::chrono::seconds(0));
  if (const auto range = detail::content_range::parse(text))
    expect(range->first <= range->last && (range->is_satisfied || range->total) &&
           (!range->is_satisfied || !range->total || range->last < *range->total));
  const std::string error =
      detail::error_in_body(text, {std::string(secret), std::string(text.substr(0, 3))});
  expect(error.size() < 1000);
  expect_hidden(error);
  detail::http_answer answer;
  answer.retry_after = text.substr(0, text.find('\0'));
  const auto pause = answer.pause(0);
  expect(pause >= std::chrono::seconds(0) && pause <= std::chrono::hours(1));
}

void read_names(const std::string& text) {
  static const detail::s3_settings s3{.endpoint = {}, .region = "us-east-1", .keys = {}};
  static const detail::web_secrets web{fl::remote_options{}};
  const std::string password = "https://user:" + std::string(secret) + "@";
  if (text.find(secret) == text.npos) {
    expect_hidden(detail::without_secrets(password + "host/" + text));
    expect_hidden(detail::without_secrets("https://host/a?token=" + std::string(secret) + "&" + text));
    std::vector<std::string> hidden;
    const std::string name = "https://host/a;pwd=" + std::string(secret) + "/" + text;
    expect_hidden(detail::without_secrets(name, &hidden));
    expect_hidden(detail::without(name, hidden));
  }
  for (const std::string& name : {text, "https://" + text, "s3://" + text, password + text}) try {
      const auto target = detail::target_of(name, s3, web);
      expect(!target.url.empty());
    } catch (const fl::object_error& error) {
      expect(std::string_view(error.what()).starts_with(detail::without_secrets(name) + ": "));
    }
  const detail::request_target from{.url = "https://host/a", .user = "user", .password = std::string(secret)};
  if (const auto to = detail::redirected(from, text))
    expect(detail::origin_of(to->url) == "https://host:443" || to->password != secret);
}

// Gives the text to a transfer as libcurl would; each attempt ends at a record separator. Two bytes before it say what is
// requested.
void read_answers(std::string_view text) {
  if (text.size() < 3) return;
  const auto first = static_cast<unsigned char>(text[0]), second = static_cast<unsigned char>(text[1]);
  const std::size_t offset = first % 32, count = second % 32;
  text.remove_prefix(2);
  const auto expected = first < 128 ? std::nullopt : std::optional(fl::object_info{10, "\"a\""});
  const auto ticket = std::make_shared<detail::part_ticket>("https://host/a", offset, count, expected);
  ticket->target = {.url = "https://host/a", .user = "user", .password = std::string(secret)};
  ticket->target.is_s3 = second >= 128;
  ticket->target.ignores_etag = (first & 64) != 0;
  detail::transfer transfer({ticket}, 100);
  if ((second & 64) != 0) transfer.use(std::make_shared<const detail::request_keys>());
  for (auto result = detail::attempt_end::broken;
       !text.empty() && (result == detail::attempt_end::broken || result == detail::attempt_end::goes_on);) {
    std::string_view attempt = text.substr(0, text.find('\x1e'));
    text.remove_prefix(std::min(attempt.size() + 1, text.size()));
    transfer.begin();
    detail::http_answer head;
    bool goes_on = true;
    while (goes_on && !head.is_complete && !attempt.empty()) {
      const std::string_view line = attempt.substr(0, std::min(attempt.find('\n'), attempt.size() - 1) + 1);
      attempt.remove_prefix(line.size());
      head.take_line(line);
      goes_on = transfer.take_header(line);
    }
    attempt = attempt.substr(0, static_cast<std::size_t>(transfer.most_body_bytes()));
    while (goes_on && !attempt.empty()) {
      const std::vector<char> piece(attempt.begin(),
                                    attempt.begin() + static_cast<std::ptrdiff_t>((attempt.size() + 1) / 2));
      attempt.remove_prefix(piece.size());
      goes_on = transfer.take_body(std::as_bytes(std::span(piece)));
    }
    result = transfer.end(CURLE_OK, {});
    if (result == detail::attempt_end::complete) {
      transfer.deliver();
      const auto part = ticket->get({});
      expect(part.bytes.size() ==
             std::min<std::uint64_t>(count,
                                     part.object.bytes - std::min<std::uint64_t>(part.object.bytes, offset)));
      for (const std::byte b : part.bytes) static_cast<void>(static_cast<const volatile std::byte&>(b));
    } else if (result != detail::attempt_end::goes_on) {
      expect(!transfer.problem().starts_with(", at offset"));
    }
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<char> exact(data, data + size); // AddressSanitizer knows its end
  const std::string_view text(exact.data(), size);
  read_small_texts(text);
  read_names(std::string(text));
  read_answers(text);
  return 0;
}
