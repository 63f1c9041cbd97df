// SPDX-License-Identifier: MIT
#pragma once
// The results of a run, as text and as JSON.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "digest.hpp"

struct training_report {
  std::uint64_t samples = 0, batches = 0;
  digest content; // of all batches, in their order
  double first_loss = NAN, last_loss = NAN;
  double seconds = 0; // since this process began to train
  std::uint64_t samples_in_seconds = 0;
  feedline::metrics metrics;

  double samples_per_second() const {
    return seconds > 0 ? static_cast<double>(samples_in_seconds) / seconds : 0;
  }
};

struct evaluation_report {
  std::uint64_t samples = 0, batches = 0, correct = 0;
  std::unordered_set<std::uint64_t> distinct; // indices of samples
  digest content;
  double seconds = 0;
  feedline::metrics metrics;

  double accuracy() const {
    return samples > 0 ? static_cast<double>(correct) / static_cast<double>(samples) : NAN;
  }
};

struct report {
  training_report train;
  evaluation_report eval;
  std::vector<feedline::failure> failures;
  std::optional<feedline::pipeline_error> error; // the one that ended the run
};

/// Formats a number with `decimals` decimals.
inline std::string decimal(double value, int decimals) {
  std::string text(64, '\0');
  text.resize(static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%.*f", decimals, value)));
  return text;
}

namespace json {

inline std::string text(std::string_view value) {
  std::string result = "\"";
  for (const char c : value) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      (result += '\\') += c;
    } else if (code < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(code));
      result += escape;
    } else {
      result += c;
    }
  }
  return result + '"';
}

/// JSON has no infinity and no NaN: they become null.
inline std::string number(double value) { return std::isfinite(value) ? decimal(value, 6) : "null"; }

inline std::string number(std::uint64_t value) { return std::to_string(value); }

inline std::string object(std::initializer_list<std::pair<std::string_view, std::string>> members) {
  std::string result;
  for (const auto& [key, value] : members) result += (result.empty() ? "{" : ", ") + text(key) + ": " + value;
  return result + "}";
}

} // namespace json

/// {"train": …, "eval": …, "failures": […], "error": the message that ended the run or null, "metrics": …};
/// times in seconds, digests in hexadecimal.
inline std::string to_json(const report& r) {
  const auto& [train, eval, failures, error] = r;
  std::string list;
  for (const feedline::failure& f : failures) {
    const bool has_index = f.index != feedline::sample_id::no_index;
    list += list.empty() ? "\n    " : ",\n    ";
    list += json::object({{"stage", json::text(f.stage)},
                          {"index", has_index ? json::number(f.index) : "null"},
                          {"origin", json::text(f.origin)},
                          {"message", json::text(f.message)}});
  }
  const std::string train_json =
      json::object({{"samples", json::number(train.samples)},
                    {"batches", json::number(train.batches)},
                    {"digest", json::text(train.content.hex())},
                    {"first_loss", json::number(train.first_loss)},
                    {"last_loss", json::number(train.last_loss)},
                    {"seconds", json::number(train.seconds)},
                    {"samples_per_second", json::number(train.samples_per_second())}});
  const std::string eval_json = json::object({{"samples", json::number(eval.samples)},
                                              {"distinct", json::number(std::uint64_t{eval.distinct.size()})},
                                              {"batches", json::number(eval.batches)},
                                              {"digest", json::text(eval.content.hex())},
                                              {"accuracy", json::number(eval.accuracy())},
                                              {"seconds", json::number(eval.seconds)}});
  const std::string metrics =
      json::object({{"train", to_json(train.metrics)}, {"eval", to_json(eval.metrics)}});
  return "{\n  \"train\": " + train_json + ",\n  \"eval\": " + eval_json + ",\n  \"failures\": [" + list +
         "],\n  \"error\": " + (error ? json::text(error->what()) : "null") + ",\n  \"metrics\": " + metrics +
         "\n}\n";
}

/// A few lines of text: the results, where the time went, and the samples that failed.
inline std::string to_string(const report& r) {
  const auto& [train, eval, failures, error] = r;
  std::string text;
  if (train.batches > 0)
    text += "\ntrained on " + std::to_string(train.samples) + " samples in " + decimal(train.seconds, 1) +
            " s, " + decimal(train.samples_per_second(), 0) + " per second; loss " +
            decimal(train.first_loss, 3) + " -> " + decimal(train.last_loss, 3) + "\n" +
            to_string(train.metrics);
  if (eval.batches > 0)
    text += "\nevaluated on " + std::to_string(eval.samples) + " samples, " +
            std::to_string(eval.distinct.size()) + " of them distinct, in " + decimal(eval.seconds, 1) +
            " s: accuracy " + decimal(100 * eval.accuracy(), 1) + " %\n" + to_string(eval.metrics);

  if (!failures.empty()) text += "\nsamples that failed: " + std::to_string(failures.size()) + "\n";
  constexpr std::size_t shown = 10;
  for (std::size_t i = 0; i < failures.size() && i < shown; ++i) text += "  " + to_string(failures[i]) + "\n";
  if (failures.size() > shown) text += "  … and " + std::to_string(failures.size() - shown) + " more\n";
  return text;
}
