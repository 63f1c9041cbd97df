// SPDX-License-Identifier: MIT
// What test_python_audio.py compares with: the pipeline of the example audio_training, in C++.
//
//   audio_reference sounds OUT                             writes one tone as OUT.wav, .flac and .ogg, and OUT.mp3 if feedline reads it
//   audio_reference arrow OUT {LABEL FILE}...              writes the files as rows; the label `-` is null
//   audio_reference huggingface OUT {LABEL FILE NAME}...   the same as structs {bytes, path}; the file `-` is only its name
//   audio_reference types OUT                              writes a row of each type, and one of nulls
//   audio_reference train|eval OUT SEED BATCHES FILE...    writes the spectrograms of that many batches
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <feedline/arrow.hpp>
#include <feedline/audio.hpp>
#include <feedline/feedline.hpp>

#include "../../examples/audio_training/features.hpp"
#include "../../examples/audio_training/options.hpp"
#include "support/arrow_writer.hpp"
#include "support/audio_files.hpp"
#include "support/mp3_writer.hpp"

namespace fl = feedline;

namespace {

void write_bytes(const std::string& out, const fl::test::bytes& bytes) {
  std::ofstream(out, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void write_sounds(const std::string& out) {
  const std::vector<float> samples = fl::test::tone(6000);
  write_bytes(out + ".wav", fl::test::write_sound(SF_FORMAT_WAV | SF_FORMAT_PCM_16, samples));
  write_bytes(out + ".flac", fl::test::write_sound(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, samples));
  write_bytes(out + ".ogg", fl::test::write_sound(SF_FORMAT_OGG | SF_FORMAT_VORBIS, samples));
#ifdef FEEDLINE_AUDIO_MPG123
  write_bytes(out + ".mp3", fl::test::write_mp3(30, {}));
#endif
}

void write_rows(const std::string& out, std::span<char*> given, bool has_paths) {
  std::vector<std::optional<std::string>> files, paths;
  std::vector<std::optional<std::int64_t>> labels;
  for (std::size_t i = 0; i + 1 < given.size(); i += has_paths ? 3 : 2) {
    const std::string label = given[i], name = given[i + 1];
    labels.push_back(label == "-" ? std::nullopt : std::optional<std::int64_t>(std::stoll(label)));
    std::ifstream file(name, std::ios::binary);
    files.push_back(name == "-" ? std::nullopt
                                : std::optional(std::string(std::istreambuf_iterator<char>(file), {})));
    if (has_paths) paths.emplace_back(given[i + 2]);
  }
  if (has_paths) {
    using namespace fl::test;
    const std::vector<bool> all(files.size(), true);
    arrow_writer writer(
        {struct_part("audio", {binary_part("bytes"), text_part("path")}), int64_part("label")});
    writer.batch({struct_data(all, {text_data(files), text_data(paths)}), number_data(labels)});
    std::ofstream(out, std::ios::binary) << writer.file();
    return;
  }
  fl::test::arrow_writer writer({fl::test::binary_part("audio"), fl::test::int64_part("label")});
  writer.batch({fl::test::text_data(files), fl::test::number_data(labels)});
  std::ofstream(out, std::ios::binary) << writer.file();
}

void write_types(const std::string& out) {
  using namespace fl::test;
  std::vector<arrow_part> parts;
  std::vector<arrow_data> columns;
  const auto add = [&](arrow_part part, arrow_data data) {
    parts.push_back(std::move(part));
    columns.push_back(std::move(data));
  };
  const auto of_unit = [](std::string name, type_kind kind, int unit, int bits = 64) {
    arrow_part part{std::move(name), kind, bits};
    part.unit = unit;
    return part;
  };
  const auto numbers = [&](std::string name, int bits, bool is_signed, arrow_data data) {
    add({std::move(name), type_kind::integer, bits, is_signed}, std::move(data));
  };
  add({"bool", type_kind::boolean}, bool_data({true, std::nullopt}));
  numbers("int8", 8, true, number_data<std::int8_t>({-3, std::nullopt}));
  numbers("uint64", 64, false, number_data<std::uint64_t>({~std::uint64_t{0}, std::nullopt}));
  add({"float", type_kind::floating_point, 1}, number_data<float>({0.5f, std::nullopt}));
  add(text_part("text"), text_data({"é", std::nullopt}));
  add(binary_part("bytes"), text_data({std::string("\0\1", 2), std::nullopt}));
  add(list_part("ints", int64_part("x")), list_data<std::int64_t>({{{1, 2}}, std::nullopt}));
  add(list_part("bytes_list", {"x", type_kind::integer, 8, false}),
      list_data<std::uint8_t>({{{7}}, std::nullopt}));
  add(struct_part("struct", {int64_part("a"), text_part("b")}),
      struct_data({true, false}, {number_data<std::int64_t>({5, 6}), text_data({"x", "y"})}));
  const auto offsets = [](arrow_data data, const std::vector<std::int32_t>& of, const arrow_data& elements) {
    data.buffers.push_back(raw_bytes(of));
    return data.append(elements);
  };
  add(list_part("strings", text_part("x")),
      offsets(data_of_validity({true, false}), {0, 3, 3}, text_data({"ab", "c", std::nullopt})));
  arrow_part map{"map", type_kind::map};
  map.children = {struct_part("entries", {text_part("key"), int64_part("value")})};
  add(map, offsets(data_of_validity({true, false}), {0, 2, 2},
                   struct_data({true, true}, {text_data({"k", "k"}), number_data<std::int64_t>({1, 2})})));
  add(of_unit("day", type_kind::date, 0), number_data<std::int32_t>({-1, std::nullopt}));
  add(of_unit("stamp", type_kind::timestamp, 1), number_data<std::int64_t>({90'000, std::nullopt}));
  add(of_unit("span", type_kind::duration, 3), number_data<std::int64_t>({12, std::nullopt}));
  add({"nothing", type_kind::null}, null_data(2));
  std::ofstream(out, std::ios::binary) << arrow_writer(parts).batch(columns).file();
}

/// The sizes are those of small() in the test.
void write_spectrograms(bool trains, const std::string& out, std::uint64_t seed, int batches,
                        const std::vector<std::string>& files) {
  options o;
  o.rate = 8000;
  o.seconds = 0.5;
  o.mels = 16;
  o.fft = 256;
  o.hop = 80;
  const fl::mel_spectrogram spectrogram(o.spectrogram());
  const auto make = fl::per_worker([&] {
    return [trains, maker = feature_maker(spectrogram, o.clip_length())](
               const clip_row& row, example_slot& slot, fl::context& context) mutable {
      if (trains) maker.for_training(row, slot, context.random);
      else maker.for_evaluation(row, slot);
    };
  });
  const auto pipeline =
      fl::arrow_rows<clip>(files, {"audio", "label"}) | fl::shuffle({.capacity = 6, .min_fill = 3}) |
      fl::prefetch(5) |
      fl::batch_into<example>(4, make, fl::shapes{{{o.mels, spectrogram.frames(o.clip_length())}}},
                              fl::workers{3}, fl::name{"spectrogram"});
  auto loader = pipeline.infinite({.seed = seed});
  std::ofstream file(out, std::ios::binary);
  for (int i = 0; i < batches; ++i) {
    const auto batch = loader.next().value();
    const fl::tensor<float>& values = batch.get<&example::spectrogram>();
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
}

} // namespace

int main(int count, char** arguments) {
  try {
    const std::span<char*> given(arguments, static_cast<std::size_t>(count));
    const std::string what = given[1];
    if (what == "sounds") write_sounds(given[2]);
    else if (what == "arrow") write_rows(given[2], given.subspan(3), false);
    else if (what == "huggingface") write_rows(given[2], given.subspan(3), true);
    else if (what == "types") write_types(given[2]);
    else
      write_spectrograms(what == "train", given[2], std::stoull(given[3]), std::stoi(given[4]),
                         {given.begin() + 5, given.end()});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "audio_reference: %s\n", error.what());
    return 1;
  }
}
