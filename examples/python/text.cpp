// SPDX-License-Identifier: MIT
// A Python class that cuts files of tokens into windows of one length and yields batches of them:
//
//     for batch in feedline.text.Windows("train-*.bin", 1025, seed=7): step(batch["tokens"])
//
// token_windows knows the format, pipeline_of() has the pipeline; below it are the names and defaults of its parameters.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include <feedline/feedline.hpp>
#include <feedline/python.hpp>
#include <feedline/python/telemetry.hpp>

#include <feedline/python/object.hpp>

#include "composed.hpp"
#include "parts.hpp"

namespace fl = feedline;
namespace py = pybind11;

using fl::python::object;

namespace {

/// What Python receives, as arrays.
struct numbered_window {
  fl::tensor<std::int64_t> tokens; // [length]
  std::int64_t index;              // of the window, the same in each epoch
};

/// At most: memory for tensors is taken in blocks, which are up to an eighth larger.
std::size_t bytes_of_window(std::size_t length) { return sizeof(numbered_window) + 9 * length + 4096; }

/// Files of little-endian numbers without a header, as numpy.ndarray.tofile() writes them. A window begins at each stride-th
/// token of a file.
class token_windows {
 public:
  static constexpr const char* kind = "token_windows";
  static constexpr const char* sample_name = "window";

  token_windows(std::size_t length, std::size_t stride, std::size_t bytes)
      : length_(length), stride_(stride), bytes_(bytes) {}

  std::uint64_t count(std::uint64_t bytes) const {
    const std::uint64_t tokens = bytes / bytes_;
    return tokens < length_ ? 0 : (tokens - length_) / stride_ + 1;
  }

  fl::tensor<std::int64_t> at(std::span<const std::byte> file, std::uint64_t number) const {
    if (number >= count(file.size())) throw std::runtime_error("has fewer windows than when it was listed");
    fl::tensor<std::int64_t> window({length_});
    const std::byte* from = file.data() + offset(number);
    for (std::int64_t& token : window) {
      std::uint32_t value = 0;
      std::memcpy(&value, from, bytes_);
      token = value;
      from += bytes_;
    }
    return window;
  }

  std::uint64_t offset(std::uint64_t number) const { return number * stride_ * bytes_; }

  std::uint64_t fingerprint() const { return fl::stable_hash(parameters()); }

  std::string parameters() const {
    return "length: " + std::to_string(length_) + "; stride: " + std::to_string(stride_) +
           "; bytes of a token: " + std::to_string(bytes_);
  }

  std::size_t max_item_bytes() const { return bytes_of_window(length_); }

 private:
  std::size_t length_, stride_, bytes_;
};

std::size_t bytes_of(const std::string& dtype) {
  for (const auto& [name, bytes] : {std::pair("uint8", 1), std::pair("uint16", 2), std::pair("uint32", 4)})
    if (dtype == name) return static_cast<std::size_t>(bytes);
  throw std::invalid_argument("dtype must be \"uint8\", \"uint16\" or \"uint32\", not \"" + dtype + "\"");
}

fl::python::with_references<fl::batch_of<numbered_window>>
pipeline_of(const fl::file_patterns& files, std::int64_t length, std::optional<std::int64_t> stride,
            const std::string& dtype, fl::python::option::seed, std::int64_t batch_size, bool shuffle,
            bool drop_last, fl::python::option::infinite, const py::object& tokenize,
            const std::string& field, std::optional<std::int64_t> separator, std::int64_t n_workers,
            std::optional<std::int64_t> num_workers, std::optional<std::int64_t> max_line_bytes) {
  require(!files.names().empty(), "files is empty: name at least one file or pattern");
  const auto batches = fl::batch(checked("batch_size", batch_size, 1'000'000), {.drop_last = drop_last});
  const std::size_t workers = workers_of(n_workers, num_workers);
  constexpr auto has_documents = [](std::string name) {
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    return name.ends_with(".jsonl");
  };
  const auto documents = std::ranges::count_if(files.names(), has_documents);
  require(documents == 0 || documents == std::ssize(files.names()),
          "files are either documents, *.jsonl, or tokens");
  const std::size_t token_bytes = bytes_of(dtype);
  require(tokenize.is_none() || PyCallable_Check(tokenize.ptr()) != 0, "tokenize must be a function or None");
  constexpr std::int64_t most = 100'000'000;
  const fl::max_item_bytes limit{bytes_of_window(checked("length", length, most))};
  if (documents > 0) {
    require(dtype == "uint16", "dtype is for files of tokens, not for documents");
    const composed windows = document_windows(
        files, {tokenize, field, workers, length, stride, separator, shuffle, max_line_bytes});
    const auto with_index = [](object window, fl::context& context) {
      return numbered_window{std::move(*window.value_if<fl::tensor<std::int64_t>>()),
                             static_cast<std::int64_t>(context.index)};
    };
    return {windows.stages.append(fl::map(with_index, limit) | batches), windows.functions};
  }
  require(tokenize.is_none() && !separator && !max_line_bytes,
          "tokenize, separator and max_line_bytes are for documents in files *.jsonl");
  const token_windows format(checked("length", length, most),
                             checked("stride", stride.value_or(length), most), token_bytes);
  const auto with_index = [](fl::tensor<std::int64_t> tokens, fl::context& context) {
    return numbered_window{std::move(tokens), static_cast<std::int64_t>(context.index)};
  };
  const auto make = fl::map(with_index, limit);
  const auto source = fl::read_files(files, format).source();
  require(std::ranges::none_of(source.files().names(), has_documents), "files: name documents as *.jsonl");
  const auto windows = file_samples(source, !shuffle);
  if (shuffle) return {windows | fl::global_shuffle() | make | batches, {}};
  return {windows | make | batches, {}};
}

} // namespace

void add_text(pybind11::module_& m) {
  fl::python::bind_telemetry(
      m, fl::python::bind_loader(
             m, "Windows", pipeline_of, py::arg("files"), py::arg("length"), py::arg("stride") = py::none(),
             py::arg("dtype") = "uint16", py::arg("seed") = 0, py::arg("batch_size") = 64,
             py::arg("shuffle") = true, py::arg("drop_last") = false, py::arg("infinite") = true,
             py::arg("tokenize") = py::none(), py::arg("field") = "text", py::arg("separator") = py::none(),
             py::arg("n_workers") = 1, py::arg("num_workers") = py::none(),
             py::arg("max_line_bytes") = py::none(),
             fl::python::checked_on_resume{{"length", "stride", "dtype", "field", "separator"}},
             R"(Yields batches of windows of tokens: dicts of arrays

  tokens  [batch, length] int64
  index   [batch] int64: the number of the window, the same in each epoch; of documents that of the one in which it ends

files: files of tokens, or patterns of them: "train-*.bin", with numbers of the type dtype and nothing else, as
    numpy.ndarray.tofile() writes them; the last tokens of a file that fill no window are left out. Or documents: files
    *.jsonl with an object of JSON in each line, whose tokens are joined to one stream
length: tokens in a window; for training on the next token one more than the context: inputs and targets are tokens[:, :-1] and
    tokens[:, 1:]
stride: from the beginning of a window to that of the next, by default length: length - 1 makes each token a target once, and 1
    makes a window begin at each token
dtype: "uint8", "uint16" or "uint32"
seed: keys the order
shuffle: each epoch has an order of its own of all windows of all files, or of all documents; if False, they follow each other in all
    passes
drop_last: leave out the last batch of a pass if it isn't full
infinite: repeat the data for ever; if False, each `for` is one pass with each window once
tokenize: of documents, a function that returns the tokens of a text, such as that of a tokenizer; with None the field has them
field: the name of the field with the text
separator: a token to add after each document
n_workers: threads that tokenize; num_workers is the same, as PyTorch's DataLoader calls them
max_line_bytes: of documents, for a memory_budget: the most bytes of a line, and of its tokens, of 8 bytes each; a longer one fails)"));
}
