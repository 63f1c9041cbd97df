// SPDX-License-Identifier: MIT
#pragma once
// Saves a training to a file and loads it: the learned weights, the results so far, and the loader's
// checkpoint.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <feedline/feedline.hpp>

#include "classifier.hpp"
#include "report.hpp"

/// Appends numbers to a string of bytes.
class state_writer {
 public:
  template <class Number>
    requires std::is_trivially_copyable_v<Number>
  void operator()(const Number& number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }

  template <class Number>
  void operator()(const std::vector<Number>& numbers) {
    (*this)(numbers.size());
    bytes_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Reads the numbers back. Throws std::runtime_error if the bytes end early.
class state_reader {
 public:
  explicit state_reader(std::string_view bytes) : bytes_(bytes) {}

  template <class Number>
    requires std::is_trivially_copyable_v<Number>
  void operator()(Number& number) {
    take(&number, sizeof number);
  }

  /// `numbers` must have the saved size.
  template <class Number>
  void operator()(std::vector<Number>& numbers) {
    std::size_t size = 0;
    (*this)(size);
    if (size != numbers.size()) throw std::runtime_error("it was saved by another model");
    take(numbers.data(), size * sizeof(Number));
  }

  std::string_view rest() const { return bytes_; }

 private:
  void take(void* to, std::size_t size) {
    if (bytes_.size() < size) throw std::runtime_error("it is truncated");
    std::memcpy(to, bytes_.data(), size);
    bytes_.remove_prefix(size);
  }

  std::string_view bytes_;
};

/// Everything but the loader's checkpoint.
void training_state(auto& archive, classifier& model, training_report& result) {
  model.state(archive);
  archive(result.samples);
  archive(result.batches);
  archive(result.content);
  archive(result.first_loss);
  archive(result.last_loss);
}

/// Replaces the file in one step: if the program is killed meanwhile, the previous file is still there.
inline void save_training(const std::string& path, classifier& model, training_report& result,
                          const feedline::checkpoint& loader_checkpoint) {
  state_writer writer;
  training_state(writer, model, result);
  const auto bytes = loader_checkpoint.to_bytes();
  const std::string draft = path + ".draft";
  std::ofstream file(draft, std::ios::binary);
  file.write(writer.bytes().data(), static_cast<std::streamsize>(writer.bytes().size()));
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file || std::rename(draft.c_str(), path.c_str()) != 0) throw std::runtime_error("can't write " + path);
}

/// Loads the model and the results, and returns the loader's checkpoint.
inline feedline::checkpoint load_training(const std::string& path, classifier& model,
                                          training_report& result) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("can't read " + path);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  try {
    state_reader reader(bytes);
    training_state(reader, model, result);
    return feedline::checkpoint::from_bytes(std::as_bytes(std::span(reader.rest())));
  } catch (const std::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}
