// SPDX-License-Identifier: MIT
#pragma once
// transfer: reads one range of an object, in as many attempts as it takes. It judges each answer and keeps the bytes
// that have arrived; it knows nothing of threads and timers.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <curl/curl.h>
#include <sys/eventfd.h>

#include <feedline/core/random.hpp>
#include <feedline/detail/block_cache.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/remote/detail/http_answer.hpp>
#include <feedline/remote/detail/part_ticket.hpp>
#include <feedline/remote/detail/url.hpp>
#include <feedline/remote/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Memory for a part; a later part of about its size reuses it.
inline std::shared_ptr<std::byte> part_memory(std::size_t bytes) {
  const block_cache::block block = block_cache::of_process().allocate(bytes);
  return {static_cast<std::byte*>(block.memory),
          [block](std::byte*) { block_cache::of_process().deallocate(block); }};
}

/// Whether the process can open only few more files.
inline bool lacks_descriptors() noexcept {
  open_file some[4]; // a connection with a look-up of its host's name opens as many
  for (open_file& file : some) {
    file = open_file(::eventfd(0, EFD_CLOEXEC));
    if (!file) return true;
  }
  return false;
}

/// What an attempt came to.
enum class attempt_end {
  complete,
  failed,   ///< because of the object, or of what the server says
  broken,   ///< because of the server or the way to it
  unusable, ///< likewise, and another attempt would end in the same way
  goes_on,  ///< another request follows at once: to where the server redirects, for the size, or for the rest
};

class transfer {
 public:
  /// The tickets are for one object and in the order of their offsets; the range goes from the first to the last.
  /// `part_bytes`: of the options.
  transfer(std::vector<std::shared_ptr<part_ticket>> tickets, std::size_t part_bytes)
      : random(key(stable_hash(tickets.front()->name), tickets.front()->offset)),
        tickets_(std::move(tickets)),
        offset_(tickets_.front()->offset),
        count_(static_cast<std::size_t>(tickets_.back()->offset - offset_) + tickets_.back()->count),
        most_whole_(std::max(part_bytes, count_)),
        target_(tickets_.front()->target) {}

  // For the thread that runs it.
  std::size_t attempts = 0; ///< since it last made progress
  random_generator random;
  bool has_ended = false;

  const request_target& target() const noexcept { return target_; }

  /// Keys for the next attempt; null for none.
  void use(std::shared_ptr<const request_keys> keys) noexcept { keys_ = std::move(keys); }

  const std::shared_ptr<const request_keys>& keys() const noexcept { return keys_; }

  /// Whether the server has refused these keys.
  bool has_refused_keys() const noexcept { return refuses_keys_; }

  /// Goes back to the first server.
  void start_over() {
    if (std::exchange(redirects_, 0) > 0) target_ = tickets_.front()->target;
  }

  bool is_cancelled() const {
    return std::ranges::all_of(tickets_, [](const auto& t) { return t->is_cancelled.load(); });
  }

  /// Begins an attempt; returns the range that it requests, or nothing if it asks for the object's size.
  std::string begin() {
    answer_ = {};
    error_.reset();
    refuses_all_ = refuses_keys_ = false;
    verdict_ = verdict::none;
    announced_ = body_ = lead_ = 0;
    return asks_size_ ? std::string() : range_text(first(), last());
  }

  /// The most bytes of a body that the server may send.
  std::uint64_t most_body_bytes() const noexcept {
    const std::uint64_t used = lead_ + count_;
    return std::max(used, used + most_unused_bytes);
  }

  /// Returns false if the attempt must be given up.
  bool take_header(std::string_view line) {
    if (verdict_ != verdict::none) { // after the body
      answer_.bytes += line.size();
      if (answer_.bytes <= http_answer::most_bytes) return true;
      if (verdict_ == verdict::accepted && body_ == announced_) return false; // nothing more is needed
    } else if (answer_.take_line(line)) {
      return true;
    }
    refuse("the answer's header exceeds " + std::to_string(http_answer::most_bytes >> 10) + " KiB");
    return false;
  }

  /// The same for a piece of the body.
  bool take_body(std::span<const std::byte> bytes) {
    if (verdict_ == verdict::none) judge();
    const std::uint64_t lead = lead_ - std::min(lead_, body_); // what is left of it
    body_ += bytes.size();
    const bool goes_on = error_ && take_error({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (verdict_ == verdict::refused) return goes_on;
    if (verdict_ != verdict::accepted) return body_ <= most_unused_bytes; // reads on, to keep the connection
    if (body_ > announced_) {
      refuse("the server sent more than the " + std::to_string(announced_) + " bytes that it announced");
      return false;
    }
    if (count_ == 0) return true; // most_body_bytes() ends it
    bytes = bytes.subspan(static_cast<std::size_t>(std::min<std::uint64_t>(lead, bytes.size())));
    if (bytes.empty()) return true;
    if (!memory_) memory_ = part_memory(length_);
    std::memcpy(memory_.get() + arrived_, bytes.data(), bytes.size());
    arrived_ += bytes.size();
    return true;
  }

  /// Ends an attempt with libcurl's result and its words about it.
  attempt_end end(CURLcode code, std::string_view words) {
    if (verdict_ == verdict::none && answer_.is_complete) judge();
    explain();
    switch (verdict_) {
    case verdict::past_end:
      return attempt_end::complete;
    case verdict::refused:
      return refuses_all_ ? attempt_end::unusable : attempt_end::failed;
    case verdict::busy:
      return attempt_end::broken;
    case verdict::moved:
      return follow();
    case verdict::sizeless:
      asks_size_ = true;
      return attempt_end::goes_on;
    case verdict::sized:
      asks_size_ = false;
      size_ = answer_;
      return attempt_end::goes_on;
    case verdict::accepted:
      if (arrived_ == length_) return attempt_end::complete;
      if (body_ == announced_) { // some servers limit what they send at once
        if (announced_ >= least_progress || ++small_steps_ <= most_small_steps) return attempt_end::goes_on;
        problem_ = "the server sends less than was requested, again and again";
        return attempt_end::failed;
      }
      problem_ = "the connection was closed " + std::to_string(length_ - arrived_) +
                 " bytes before the end of the part";
      return attempt_end::broken;
    case verdict::none:
      break;
    }
    return end_without_answer(code, words);
  }

  /// Ends an attempt in which too few bytes arrived.
  attempt_end end_stalled(std::string problem) {
    const attempt_end result = end(CURLE_PARTIAL_FILE, {});
    if (result == attempt_end::broken && verdict_ != verdict::busy) problem_ = std::move(problem);
    return result;
  }

  /// Ends an attempt that couldn't begin or go on.
  void refuse(std::string problem) {
    verdict_ = verdict::refused;
    problem_ = std::move(problem);
  }

  /// The same after an exception, where none can be thrown. The object isn't to blame.
  void refuse(const std::exception& error) noexcept {
    error_.reset();
    try {
      refuse(error.what());
    } catch (const std::exception&) {
      verdict_ = verdict::refused;
      problem_ = "no memory"; // so short that it needs none
    }
    refuses_all_ = true;
  }

  /// Ends an attempt that another one, of HTTP/1.1, should replace.
  void break_off(std::string problem) {
    verdict_ = verdict::busy;
    problem_ = std::move(problem);
  }

  /// Whether the server has answered with bytes of the object.
  bool is_accepted() const noexcept { return verdict_ == verdict::accepted; }

  /// The last attempt's problem and where it occurred.
  std::string problem() const {
    return problem_ + (problem_.starts_with("status ") ? " at offset " : ", at offset ") +
           std::to_string(first());
  }

  /// The object's name for messages.
  std::string shown() const { return without_secrets(tickets_.front()->name); }

  /// After a broken attempt: whether it read enough to begin counting attempts again. A server that sends a few bytes
  /// per attempt doesn't make progress.
  bool made_progress() {
    if (arrived_ < progress_ + least_progress) return false;
    progress_ = arrived_;
    return true;
  }

  /// How long the server asked to wait.
  std::chrono::nanoseconds pause() const {
    return verdict_ == verdict::busy ? answer_.pause(std::time(nullptr)) : std::chrono::nanoseconds(0);
  }

  void deliver() {
    for (const auto& t : tickets_) {
      const auto begin = std::min(static_cast<std::size_t>(t->offset - offset_), length_);
      const std::size_t count = std::min(t->count, length_ - begin);
      t->deliver({*object_, std::span<const std::byte>(memory_.get() + begin, count), memory_});
    }
  }

  /// Fails with the last attempt's problem. `in_outage`: it isn't the object's.
  void fail(std::size_t tried, bool in_outage) noexcept {
    part_problem kind = in_outage     ? part_problem::outage
                        : is_missing_ ? part_problem::missing
                                      : part_problem::of_object;
    std::string what;
    try {
      what = problem() + (tried > 1 ? "; tried " + std::to_string(tried) + " times" : "");
    } catch (const std::exception&) {
      kind = part_problem::memory;
    }
    for (const auto& t : tickets_) t->fail(what, kind);
  }

  /// Fails for a reason that has nothing to do with the object.
  void abandon(std::string_view problem, part_problem kind) noexcept {
    for (const auto& t : tickets_) t->abandon(problem, kind);
  }

 private:
  enum class verdict { none, accepted, past_end, busy, refused, moved, sizeless, sized };

  static constexpr std::size_t most_redirects = 10;

  static constexpr std::size_t least_progress = std::size_t{64} << 10;

  static constexpr std::size_t most_small_steps = 100; // each of less than that

  static constexpr std::size_t most_unused_bytes = std::size_t{64} << 10; // of a body that says nothing

  std::uint64_t first() const noexcept { return offset_ + arrived_; }

  // A request for no bytes asks for one, as a range can't be empty.
  std::uint64_t last() const noexcept { return offset_ + std::max<std::size_t>(count_, 1) - 1; }

  void judge() {
    if (target().ignores_etag) answer_.etag.clear();
    if (asks_size_ && (answer_.status < 300 || answer_.status >= 400) && !may_heal(answer_.status))
      return judge_size();
    if (answer_.status < 300 && !is_stored_encoding())
      return refuse("the server sent " + said(answer_.encoding, 40) +
                    " (Content-Encoding), which wasn't requested");
    switch (answer_.status) {
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
      // A redirected request to S3 would need another signature.
      if (target().is_s3 || answer_.location.empty()) return refuse_status();
      verdict_ = verdict::moved;
      return;
    case 206:
      return judge_range();
    case 200:
      return judge_whole();
    case 416:
      return judge_end();
    default:
      if (!may_heal(answer_.status)) return refuse_status();
      verdict_ = verdict::busy;
      problem_ = "status " + status_text(answer_.status);
      error_.emplace();
    }
  }

  static bool may_heal(int status) noexcept {
    if (status == 501 || status == 505) return false; // of the request
    return status >= 500 || status == 408 || status == 429;
  }

  // An object may be stored as a compressed file that its server describes as an encoding. Then the ranges, the length and
  // the bytes are those of the file; a server that compresses as it sends doesn't know the length.
  bool is_stored_encoding() const {
    const std::string encoding = lower_case(answer_.encoding);
    if (encoding.empty() || encoding == "identity") return true;
    const bool is_known = encoding == "gzip" || encoding == "x-gzip" || encoding == "zstd";
    return is_known && answer_.length && (answer_.range || answer_.status == 200);
  }

  // The answer to a request for the size alone.
  void judge_size() {
    if (answer_.status == 200 && answer_.length) verdict_ = verdict::sized;
    else
      refuse("the server doesn't say how large the object is: not in Content-Range, and a request for that "
             "(HEAD) " +
             ("got status " + status_text(answer_.status)));
  }

  void judge_range() {
    const auto& range = answer_.range;
    if (!range || !range->is_satisfied)
      return refuse("the server answered with status 206, but without a valid Content-Range");
    std::optional<std::uint64_t> total = range->total;
    if (!total && known()) total = known()->bytes;
    if (!total && size_) {
      if (!answer_.version().empty() && !size_->version().empty() && answer_.version() != size_->version())
        return refuse(change_text({*size_->length, size_->version()}, {*size_->length, answer_.version()}));
      total = size_->length;
    }
    if (range->first != first() || range->last > last() || (total && range->last >= *total))
      return refuse("the server answered with bytes " + range_text(range->first, range->last) +
                    " instead of " + range_text(first(), total ? std::min(last(), *total - 1) : last()) +
                    " (Content-Range)");
    announced_ = range->last - range->first + 1;
    if (answer_.length && *answer_.length != announced_)
      return refuse("the server announced " + std::to_string(*answer_.length) +
                    " bytes (Content-Length) for bytes " + range_text(range->first, range->last));
    if (!total) verdict_ = verdict::sizeless;
    else accept(*total);
  }

  // Fine if the object is small and ends within the range. What precedes the range comes again, as do the bytes of earlier
  // attempts.
  void judge_whole() {
    const std::string ignores = "the server ignores ranges: it answered with the whole object (status 200)";
    if (!answer_.length) return refuse(ignores + ", and without its size (Content-Length)");
    if (count_ > 0 &&
        (*answer_.length > most_whole_ || (*answer_.length > offset_ && *answer_.length - offset_ > count_)))
      return refuse(ignores +
                    "; a source that reads in order can use it if remote_options::part_bytes is at least " +
                    std::to_string(*answer_.length));
    arrived_ = 0;
    announced_ = *answer_.length;
    lead_ = std::min(offset_, announced_);
    accept(announced_);
  }

  void judge_end() {
    // S3 doesn't say the size; but only an empty object has no byte 0.
    std::optional<std::uint64_t> total;
    if (answer_.range && answer_.range->total) total = answer_.range->total;
    else if (first() == 0) total = 0;
    else if (known()) total = known()->bytes;
    if (!total || first() < *total) return refuse_status();
    if (answer_.version().empty() && known()) answer_.etag = known()->version; // errors often have none
    accept(*total);
    if (verdict_ == verdict::accepted) verdict_ = verdict::past_end;
  }

  attempt_end follow() {
    auto next = redirected(target_, answer_.location);
    if (next && ++redirects_ <= most_redirects) {
      target_ = *std::move(next);
      return attempt_end::goes_on;
    }
    refuse(next ? "the server redirects too often" : "the server redirects to a URL that isn't valid");
    return attempt_end::failed;
  }

  void refuse_status() {
    std::string problem = "status " + status_text(answer_.status);
    is_missing_ = answer_.status == 404 || answer_.status == 410;
    if (target().is_s3) {
      if (!answer_.bucket_region.empty() && answer_.status < 500 && answer_.status != 404)
        problem += " (the bucket's region is " + said(answer_.bucket_region, 40) + ", set AWS_REGION)";
      else if ((answer_.status == 401 || answer_.status == 403) && keys_ && keys_->user.empty())
        problem += " (the request wasn't signed: " + readable(keys_->why_none) + ")";
    }
    refuse(std::move(problem));
    error_.emplace();
  }

  // Takes a piece of the body of an answer with an error; false if no more of it is needed.
  bool take_error(std::string_view bytes) {
    constexpr std::size_t most = std::size_t{16} << 10;
    error_->append(bytes.substr(0, most - error_->size()));
    return trimmed(*error_).starts_with('<') && error_->size() < most &&
           error_->find("</Error>") == error_->npos;
  }

  // Adds what S3 says to the problem.
  void explain() {
    if (!error_) return;
    const std::string text = error_in_body(*error_);
    // The server refuses every request, until the user has done something.
    const bool is_expired = text.starts_with(" (ExpiredToken");
    refuses_all_ = verdict_ == verdict::refused && target().is_s3 &&
                   (is_expired || text.starts_with(" (RequestTimeTooSkewed"));
    const bool is_denied = answer_.status == 401 || (target().is_s3 && answer_.status == 403);
    refuses_keys_ = keys_ && verdict_ == verdict::refused &&
                    (target().is_s3 ? is_expired || (is_denied && keys_->user.empty()) : is_denied);
    problem_ += error_in_body(*error_, secrets());
    error_.reset();
  }

  // What a server knows of this request, which it may repeat in its answer, and no message should show.
  std::vector<std::string> secrets() const {
    std::vector<std::string> all{target().password};
    without_secrets(tickets_.front()->name, &all);
    without_secrets(target().url, &all);
    const auto add = [&](const std::vector<std::string>& headers) {
      for (const std::string& header : headers) {
        const std::size_t colon = header.find(':');
        all.emplace_back(trimmed(std::string_view(header).substr(colon + 1)));
        if (lower_case(std::string_view(header).substr(0, colon)) == "authorization") // "Bearer SECRET"
          all.push_back(all.back().substr(all.back().find(' ') + 1));
      }
    };
    add(target().headers);
    if (!target().user.empty() || !target().password.empty())
      all.push_back(base64(target().user + ":" + target().password));
    if (keys_) {
      all.push_back(keys_->password);
      add(keys_->headers);
    }
    return all;
  }

  // A text of the server's, for a message.
  std::string said(std::string_view text, std::size_t most) const {
    return readable(beginning_of(without(std::string(text), secrets()), most));
  }

  // The version that was read before, or must be read.
  const std::optional<object_info>& known() const { return object_ ? object_ : tickets_.front()->expected; }

  void accept(std::uint64_t total) {
    object_info object{total, answer_.version()};
    if (known() && *known() != object) return refuse(change_text(*known(), object));
    verdict_ = verdict::accepted;
    if (object_) return;
    object_ = std::move(object);
    length_ = static_cast<std::size_t>(std::min<std::uint64_t>(count_, total - std::min(total, offset_)));
  }

  std::string change_text(const object_info& before, const object_info& now) const {
    if (before.bytes != now.bytes)
      return "has changed: " + std::to_string(before.bytes) + " bytes before, " + std::to_string(now.bytes) +
             " now";
    const auto text = [this](const std::string& version) {
      return version.empty() ? std::string("none") : said(version, 100);
    };
    const bool had_etag = before.version.ends_with('"'), has_etag = now.version.ends_with('"');
    return std::string("has changed: ") + (had_etag || has_etag ? "ETag " : "Last-Modified ") +
           text(before.version) + " before, " + text(now.version) + " now" +
           (had_etag && has_etag
                ? " (if the server sends another ETag for each request, set remote_options::ignore_etag)"
                : "");
  }

  static std::string range_text(std::uint64_t first, std::uint64_t last) {
    return std::to_string(first) + "-" + std::to_string(last);
  }

  attempt_end end_without_answer(CURLcode code, std::string_view words) {
    const auto broken = [&](std::string problem) {
      problem_ = std::move(problem);
      return attempt_end::broken;
    };
    const auto failed = [&](std::string problem) {
      problem_ = std::move(problem);
      return attempt_end::failed;
    };
    const auto unusable = [&](std::string problem) {
      problem_ = std::move(problem);
      return attempt_end::unusable;
    };
    // For the results that show them, libcurl's words name at most a host; but it quotes a proxy that it doesn't
    // understand, which may have a password.
    if (words.empty() || words.starts_with("Unsupported proxy") || words.find('@') != words.npos)
      words = curl_easy_strerror(code);
    const std::string why = " (" + readable(words) + ")";
    if (code != CURLE_OK && code != CURLE_PARTIAL_FILE && lacks_descriptors())
      return broken(
          "the process has too few file descriptors (EMFILE): raise their limit (ulimit -n), or lower "
          "remote_options::in_flight");
    if (code == CURLE_OUT_OF_MEMORY && answer_.bytes == 0) return broken("libcurl has no memory left");
    switch (code) {
    case CURLE_OK:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return broken("the connection was closed before an answer");
    case CURLE_OPERATION_TIMEDOUT:
      return broken("connecting took too long (connect_timeout)");
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
      return broken("can't connect" + why);
    case CURLE_PEER_FAILED_VERIFICATION:
      return unusable("the server's certificate isn't valid" + why);
    case CURLE_SSL_CACERT_BADFILE:
      return unusable("the certificates of authorities can't be read" + why);
    case CURLE_ABORTED_BY_CALLBACK:
      return failed("the server sends more than was requested");
    // libcurl limits the length of a line and of all headers too.
    case CURLE_OUT_OF_MEMORY:
#if LIBCURL_VERSION_NUM >= 0x080600
    case CURLE_TOO_LARGE:
#endif
      return failed("the answer's header is too long");
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_FUNCTION_ARGUMENT: // a head that begins by continuing a line
      return failed("the server's answer, or where it redirects to, isn't HTTP");
    default:
      return unusable(std::string("can't be read (") + curl_easy_strerror(code) + ")");
    }
  }

  const std::vector<std::shared_ptr<part_ticket>> tickets_;
  const std::uint64_t offset_;
  const std::size_t count_;
  const std::size_t most_whole_; // the largest object that is read from a server without ranges

  // Of all attempts.
  std::optional<object_info> object_;
  std::shared_ptr<std::byte> memory_; // of length_ bytes, from the first one on
  std::size_t length_ = 0;            // of the part, as soon as object_ is known
  std::size_t arrived_ = 0;
  std::size_t progress_ = 0;        // arrived_ when attempts were last counted from the beginning
  bool asks_size_ = false;          // the next request does
  std::optional<http_answer> size_; // to that request
  std::size_t small_steps_ = 0;

  // Of this attempt.
  request_target target_;
  std::size_t redirects_ = 0;
  std::shared_ptr<const request_keys> keys_;
  http_answer answer_;
  verdict verdict_ = verdict::none;
  std::uint64_t announced_ = 0; // bytes of the body
  std::uint64_t body_ = 0;      // bytes of it that came
  std::uint64_t lead_ = 0;      // bytes of it that precede the range
  std::string problem_;
  std::optional<std::string> error_; // the beginning of the body, if the answer's status is an error
  bool is_missing_ = false;          // there is no such object
  bool refuses_all_ = false;         // the server's refusal isn't about the object
  bool refuses_keys_ = false;        // other keys may help
};

} // namespace feedline::inline FEEDLINE_ABI::detail
