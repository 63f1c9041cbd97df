// SPDX-License-Identifier: MIT
// The format of chess chunks: each version and input format, errors, and rescoring of a game.
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/core/random.hpp>

#include "../examples/chess_training/blunders.hpp"
#include "../examples/chess_training/chunk.hpp"
#include "../examples/chess_training/synthetic_games.hpp"
#include "../examples/chess_training/tensors.hpp"
#include "support/catch.hpp"

namespace {

constexpr std::size_t v6_size = 8356, v7_size = 8396;

template <class T>
void put(std::string& bytes, std::size_t at, T value) {
  REQUIRE(at + sizeof value <= bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <class T>
T get(const std::string& bytes, std::size_t at) {
  T value;
  REQUIRE(at + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

chess::chunk chunk_of(const std::string& bytes, std::string name) {
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {std::move(name), std::vector<std::byte>(begin, begin + bytes.size())};
}

chess::game read(const std::string& records, chess::record_format format = chess::record_format::any) {
  return chess::read_game(chunk_of(records, "game"), format);
}

/// The error, such as "wrong size | game: 3 bytes …", or "fine".
std::string problem_of(const chess::chunk& c, chess::record_format format = chess::record_format::any) {
  try {
    chess::read_game(c, format);
  } catch (const chess::chunk_error& error) {
    return std::string(error.cause()) + " | " + error.what();
  }
  return "fine";
}

std::string problem_of(const std::string& records, chess::record_format format = chess::record_format::any) {
  return problem_of(chunk_of(records, "game"), format);
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  const bool is_there = text.find(part) != std::string::npos;
  CHECK(is_there);
  return is_there;
}

struct flat_tuple {
  std::vector<float> planes = std::vector<float>(112 * 64), probabilities = std::vector<float>(1858),
                     winner = std::vector<float>(3), best_q = std::vector<float>(3),
                     values = std::vector<float>(18);
  float plies_left = 0;
};

flat_tuple tuple_of(const chess::packed_position& p) {
  flat_tuple t;
  chess::fill_tuple(p, {t.planes, t.probabilities, t.winner, t.best_q, t.plies_left, t.values});
  return t;
}

/// A record in which all planes, ranks and files differ.
std::string lively_record(std::uint32_t input_format, std::uint64_t seed) {
  std::string record = chess::synthetic_records(seed, {.positions = 1, .input_format = input_format});
  feedline::random_generator random(seed);
  for (std::size_t plane = 0; plane < 104; ++plane) put(record, 7440 + 8 * plane, random());
  for (std::size_t i = 0; i < 7; ++i) put(record, 8272 + i, static_cast<std::uint8_t>(random.below(256)));
  return record;
}

/// The 112 planes, computed square by square from the description of the format.
std::vector<float> planes_by_hand(const std::string& record) {
  const auto format = get<std::uint32_t>(record, 4);
  const auto byte = [&](std::size_t at) { return get<std::uint8_t>(record, at); };
  std::vector<float> all;
  const auto plane = [&](auto value) {
    for (unsigned square = 0; square < 64; ++square)
      all.push_back(static_cast<float>(value(square / 8, square % 8)));
  };
  const auto constant = [&](double x) { plane([x](unsigned, unsigned) { return x; }); };
  for (std::size_t p = 0; p < 104; ++p) {
    const auto bits = get<std::uint64_t>(record, 7440 + 8 * p);
    plane([&](unsigned rank, unsigned file) { return bits >> ((8 * rank + file) ^ 7) & 1; });
  }
  if (format == 1) {
    for (std::size_t i = 0; i < 5; ++i) constant(byte(8272 + i));
  } else {
    const auto two_rows = [&](unsigned first, unsigned last) {
      plane([=](unsigned rank, unsigned file) {
        return rank == 0 ? first >> file & 1 : rank == 7 ? last >> file & 1 : 0;
      });
    };
    two_rows(byte(8272), byte(8274));
    two_rows(byte(8273), byte(8275));
    constant(0);
    constant(0);
    if (format == 2) constant(byte(8276));
    else two_rows(0, byte(8276));
  }
  constant(byte(8277) / (format > 3 ? 100.0 : 99.0));
  constant(format >= 132 && byte(8278) >= 128 ? 1 : 0);
  constant(1);
  return all;
}

/// A record of an older version, with the fields that it shares with version 6.
std::string older(const std::string& v6, std::uint32_t version, std::int8_t result) {
  std::string record(4, '\0');
  put(record, 0, version);
  if (version >= 5) record += v6.substr(4, 4);
  record += v6.substr(8, 7432 + 832 + 8);
  put(record, record.size() - 1, result);
  if (version >= 4) record += v6.substr(8280, 16);
  if (version >= 5) record += v6.substr(8296, 12);
  return record;
}

} // namespace

TEST_CASE("planes of each input format match the description") {
  for (const std::uint32_t format : {1u, 2u, 3u, 4u, 5u, 132u, 133u})
    for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
      const std::string record = lively_record(format, seed);
      const chess::game game = read(record);
      REQUIRE(game.positions.size() == 1);
      INFO("format " << format << ", seed " << seed);
      CHECK(tuple_of(game.positions[0]).planes == planes_by_hand(record));
    }
}

TEST_CASE("positions keep any number of moves when they change threads") {
  std::string records;
  std::vector<std::vector<float>> wanted;
  for (const std::size_t legal : {0u, 1u, 30u, 51u, 52u, 53u, 218u, 1858u}) {
    std::string record = chess::synthetic_records(legal, {.positions = 1});
    std::vector<float>& probabilities = wanted.emplace_back(1858, chess::illegal);
    for (std::size_t i = 0; i < legal; ++i)
      probabilities[i * 1858 / legal] = static_cast<float>(i) / static_cast<float>(legal);
    std::memcpy(record.data() + 8, probabilities.data(), 1858 * sizeof(float));
    records += record;
  }
  // Each thread frees the positions of the one before and makes others.
  std::vector<std::vector<chess::packed_position>> games(40);
  for (int threads = 0; threads < 5; ++threads)
    std::thread([&] {
      for (auto& positions : games) positions = read(records).positions;
    }).join();
  for (const auto& positions : games)
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const bool is_equal = tuple_of(positions.at(i)).probabilities == wanted[i];
      CHECK(is_equal);
    }
}

TEST_CASE("memory of freed positions is reused by all threads") {
  const std::string records = chess::synthetic_records(1, {.positions = 100});
  std::set<const void*> places;
  for (int i = 0; i < 20; ++i) {
    std::vector<chess::packed_position> positions;
    std::thread([&] { positions = read(records).positions; }).join();
    for (const chess::packed_position& p : positions) places.insert(&p.planes());
    std::thread([gone = std::move(positions)]() mutable { gone.clear(); }).join();
  }
  CHECK(places.size() < 5 * 100); // for 2000 positions
}

TEST_CASE("the other tensors have the values of the record") {
  std::string record = chess::synthetic_records(5, {.positions = 1, .version = 7});
  REQUIRE(record.size() == v7_size);
  put(record, 8 + 4 * 1857, 0.25f); // the last move
  put(record, 8, -0.0f);            // the first: legal
  const std::array<float, 15> facts{0.5f,   0.25f, 0.125f, 0.3f, 11, 12,     13,     -0.5f,
                                    0.375f, 0.75f, 0.2f,   14,   -1, 0.625f, 0.0625f};
  put(record, 8280, facts);
  put(record, 8352, -0.25f);
  put(record, 8356, 0.7f);
  const chess::game game = read(record);
  const flat_tuple t = tuple_of(game.positions.at(0));
  CHECK(std::memcmp(t.probabilities.data(), record.data() + 8, 1858 * sizeof(float)) == 0);
  CHECK(t.winner == std::vector<float>{0.0625f, 0.375f, 0.5625f}); // -0.5 and 0.375
  CHECK(t.best_q == std::vector<float>{static_cast<float>(0.5 * (1 - double{0.3f} + 0.25)), 0.3f,
                                       static_cast<float>(0.5 * (1 - double{0.3f} - 0.25))});
  CHECK(t.plies_left == 13);
  const std::vector<float> known{-0.5f, 0.375f, 13,      0.25f, 0.3f,   12, 0.75f,  0.2f, 14,
                                 -1,    0.625f, 0.0625f, 0.5f,  0.125f, 11, -0.25f, 0.7f};
  CHECK(std::vector<float>(t.values.begin(), t.values.end() - 1) == known);
  CHECK(std::isnan(t.values.back()));

  put(record, 8304, 0.0f);
  put(record, 8278, std::uint8_t{77});
  CHECK(tuple_of(read(record).positions.at(0)).plies_left == 77);
}

TEST_CASE("records of versions 4 and 5 are read without guessed values") {
  std::string v6 = lively_record(1, 9);
  put(v6, 8278, std::uint8_t{31});
  put(v6, 8284, 0.5f); // best_q
  for (const std::int8_t result : std::array<std::int8_t, 3>{-1, 0, 1}) {
    const flat_tuple five = tuple_of(read(older(v6, 5, result)).positions.at(0));
    const flat_tuple four = tuple_of(read(older(v6, 4, result)).positions.at(0));
    const flat_tuple six = tuple_of(read(v6).positions.at(0));
    for (const flat_tuple* old : {&five, &four}) {
      CHECK(old->planes == six.planes);
      CHECK(old->probabilities == six.probabilities);
      CHECK(old->best_q == six.best_q);
      CHECK(old->winner ==
            std::vector<float>{result > 0 ? 1.0f : 0, result == 0 ? 1.0f : 0, result < 0 ? 1.0f : 0});
      CHECK(old->values[3] == 0.5f);
      for (const std::size_t unknown : {6u, 7u, 8u, 9u, 10u, 11u, 15u, 16u})
        CHECK(std::isnan(old->values[unknown]));
    }
    CHECK(five.plies_left == six.plies_left);
    CHECK(four.plies_left == 31);
  }
  CHECK(says(problem_of(older(v6, 5, 2)), "out of range | game: record 0: the result is 2"));
  std::string three = older(v6, 3, 0);
  REQUIRE(three.size() == 8276);
  CHECK(says(problem_of(three), "wrong version | game: records of version 3 can't be used"));
  std::string five = older(lively_record(4, 1), 5, 0);
  CHECK(read(five).positions.at(0).input_format() == 4);
}

TEST_CASE("a bad chunk is refused with its cause, its name and its record") {
  const std::string good = chess::synthetic_records(3, {.positions = 3});
  REQUIRE(good.size() == 3 * v6_size);
  CHECK(read(good).positions.size() == 3);
  const auto with = [&](std::size_t at, auto value) {
    std::string bytes = good;
    put(bytes, v6_size + at, value);
    return problem_of(bytes);
  };
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinite = std::numeric_limits<float>::infinity();

  CHECK(says(problem_of(std::string()), "wrong size | game: 0 bytes"));
  CHECK(says(problem_of(std::string("abc")), "wrong size | game: 3 bytes"));
  CHECK(says(problem_of(good.substr(0, good.size() - 1)), "wrong size"));
  CHECK(says(problem_of(good.substr(0, 4)), "wrong size"));
  CHECK(says(problem_of(good + good.substr(0, v7_size)), "wrong size"));
  CHECK(says(problem_of(std::string(v6_size, '\0')), "wrong version | game: records of version 0"));
  CHECK(says(with(0, std::uint32_t{7}), "wrong version | game: record 1: it has version 7, not 6"));
  for (const std::uint32_t format : {0u, 6u, 131u, 134u, ~0u})
    CHECK(says(with(4, format), "wrong input format | game: record 1"));
  CHECK(says(with(8 + 4 * 1857, nan), "not a number | game: record 1: the probability of move 1857 is NaN"));
  CHECK(says(with(8, 1.5f), "out of range | game: record 1: the probability of move 0 is 1.5"));
  CHECK(says(with(8 + 40, -0.5f), "out of range"));
  CHECK(says(with(8 + 40, infinite), "out of range"));
  for (const std::size_t at :
       {8280u, 8284u, 8288u, 8292u, 8296u, 8300u, 8304u, 8308u, 8312u, 8316u, 8320u, 8324u}) {
    CHECK(says(with(at, nan), "not a number | game: record 1"));
    CHECK(says(with(at, -infinite), "out of range"));
  }
  CHECK(says(with(8280, 1.5f), "out of range | game: record 1: root_q is 1.5"));
  CHECK(says(with(8312, -0.5f), "out of range | game: record 1: result_d"));
  for (const std::size_t at : {8328u, 8332u, 8336u, 8348u, 8352u}) CHECK(with(at, nan) == "fine");
  std::string v7 = chess::synthetic_records(3, {.positions = 1, .version = 7});
  put(v7, 8356, nan);
  CHECK(says(problem_of(v7), "not a number | game: record 0: d_st"));
}

TEST_CASE("a single version can be required") {
  const std::string v6 = chess::synthetic_records(1, {.positions = 2}),
                    v7 = chess::synthetic_records(1, {.positions = 2, .version = 7});
  CHECK(problem_of(v6, chess::record_format::v6) == "fine");
  CHECK(problem_of(v7, chess::record_format::v7) == "fine");
  CHECK(says(problem_of(v6, chess::record_format::v7), "wrong version"));
  CHECK(says(problem_of(v7, chess::record_format::v6), "wrong version"));
}

TEST_CASE("compressed chunks that are damaged, not gzip or far too large are refused") {
  const std::string records = chess::synthetic_records(1, {.positions = 2});
  const std::string file = chess::detail::gzip(records);
  CHECK(chess::read_game(chunk_of(file, "1.gz")).positions.size() == 2);
  CHECK(says(problem_of(chunk_of(records, "1.gz")), "not gzip | 1.gz"));
  CHECK(says(problem_of(chunk_of("", "1.gz")), "not gzip"));
  CHECK(says(problem_of(chunk_of(file, "1")), "wrong version | 1"));
  CHECK(says(problem_of(chunk_of(file.substr(0, file.size() / 2), "1.gz")), "damaged gzip | 1.gz"));
  std::string flipped = file;
  flipped[file.size() / 2] = static_cast<char>(flipped[file.size() / 2] ^ 0x55);
  CHECK(says(problem_of(chunk_of(flipped, "1.gz")), "damaged gzip | 1.gz"));
  const std::string bomb = chess::detail::gzip(std::string(std::size_t{129} << 20, '\0'));
  CHECK(says(problem_of(chunk_of(bomb, "1.gz")), "too large | 1.gz"));
}

TEST_CASE("a randomly damaged chunk is either refused or read") {
  const std::string records = chess::synthetic_records(1, {.positions = 2, .version = 7});
  feedline::random_generator random(1);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = records.substr(0, records.size() - (i % 3 == 0 ? random.below(records.size()) : 0));
    for (std::uint64_t changes = random.below(4); changes > 0 && !bytes.empty(); --changes)
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    try {
      for (const chess::packed_position& p : read(bytes).positions) CHECK(tuple_of(p).planes.back() == 1);
    } catch (const chess::chunk_error&) {
    }
  }
}

TEST_CASE("before a blunder the result is replaced by that of the search") {
  const auto position = [](float best_q, float played_q, float result_q) {
    std::string record = chess::synthetic_records(1, {.positions = 1});
    put(record, 8284, best_q);
    put(record, 8292, 0.125f); // best_d
    put(record, 8308, result_q);
    put(record, 8312, 0.0f);
    put(record, 8316, played_q);
    return record;
  };
  // The players alternate; the third move is a blunder, and the first one a smaller one.
  const std::string records = position(0.5f, 0.0f, -1) + position(0.1f, 0.1f, 1) +
                              position(0.25f, -0.5f, -1) + position(0.6f, 0.5f, 1) +
                              position(-0.7f, -0.7f, -1);
  const chess::game g = chess::blunder_rescorer(0.3f)(read(records));
  std::vector<std::pair<float, float>> results;
  for (const chess::packed_position& p : g.positions)
    results.emplace_back(p.facts().result_q, p.facts().result_d);
  CHECK(results == std::vector<std::pair<float, float>>{
                       {0.5f, 0.125f}, {-0.25f, 0.125f}, {0.25f, 0.125f}, {1, 0}, {-1, 0}});
  CHECK(chess::blunder_rescorer(0.8f)(read(records)).positions[0].facts().result_q == -1);
  std::string unknown = position(0.9f, std::numeric_limits<float>::quiet_NaN(), -1);
  // A version without a value of the played move.
  CHECK(chess::blunder_rescorer(0.3f)(read(older(unknown, 5, -1))).positions[0].facts().result_q == -1);
}
