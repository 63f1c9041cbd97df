// SPDX-License-Identifier: MIT
// Data-parallel training: each rank learns from its part of every global batch, and MPI sums the gradients.
// The number of ranks changes only the time. Start it with `mpirun -n 4 mpi_training --checkpoint FILE`, kill
// it, and continue with `mpirun -n 2 mpi_training --resume FILE`: the loss of each step is the same to the
// last bit.
#include <array>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpi.h>

#include <feedline/feedline.hpp>
#include <feedline/telemetry.hpp>

namespace fl = feedline;

namespace {

constexpr std::size_t features = 8;

struct point {
  std::array<float, features> x;
  float y;
};

std::vector<point> make_points(std::size_t count) {
  fl::random_generator random(1);
  std::vector<point> points(count);
  for (point& p : points) {
    p.y = static_cast<float>(random.uniform(-0.1, 0.1));
    for (std::size_t i = 0; i < features; ++i) {
      p.x[i] = static_cast<float>(random.uniform(-1, 1));
      p.y += static_cast<float>(i) * p.x[i];
    }
  }
  return points;
}

point jitter(point p, fl::context& context) {
  for (float& x : p.x) x += static_cast<float>(context.random.uniform(-0.01, 0.01));
  return p;
}

/// The gradient of linear regression and the squared error, summed over samples. They are integers, multiples
/// of 2^-32, because a sum of integers doesn't depend on the order, while a sum of floating-point numbers
/// does.
using sums = std::array<std::int64_t, features + 1>;

template <class Batch>
sums gradient_of(const std::array<double, features>& weights, const Batch& batch) {
  const fl::tensor<float>& x = batch.template get<&point::x>();
  const fl::tensor<float>& y = batch.template get<&point::y>();
  const auto fixed = [](double value) { return std::llround(std::ldexp(value, 32)); };
  sums total{};
  for (std::size_t row = 0; row < batch.size(); ++row) {
    double error = -static_cast<double>(y[row]);
    for (std::size_t i = 0; i < features; ++i)
      error += weights[i] * static_cast<double>(x[row * features + i]);
    for (std::size_t i = 0; i < features; ++i)
      total[i] += fixed(error * static_cast<double>(x[row * features + i]));
    total[features] += fixed(error * error);
  }
  return total;
}

struct training {
  std::uint64_t step = 0;
  std::array<double, features> weights{};
  std::optional<fl::checkpoint> data;
};

/// Writes one file for all ranks, because all of them are at the same step.
void save(const training& t, const std::string& path) {
  const std::string draft = path + ".draft";
  std::ofstream file(draft);
  file << "step " << t.step << "\nweights";
  for (const double w : t.weights) {
    char text[40];
    std::snprintf(text, sizeof text, " %a", w);
    file << text;
  }
  file << "\n" << t.data->to_json();
  file.close();
  if (!file || std::rename(draft.c_str(), path.c_str()) != 0) throw std::runtime_error("can't write " + path);
}

training load(const std::string& path) {
  std::ifstream file(path);
  training t;
  std::string word;
  bool fits = file >> word && word == "step" && file >> t.step && file >> word && word == "weights";
  for (double& w : t.weights) {
    fits = fits && file >> word;
    w = fits ? std::stod(word) : 0;
  }
  if (!fits) throw std::runtime_error(path + " is not the checkpoint of an interrupted training");
  t.data = fl::checkpoint::from_json(std::string(std::istreambuf_iterator<char>(file), {}));
  return t;
}

struct command_line {
  std::string checkpoint, resume;
  bool watch = false; // show what every stage of rank 0 does
  std::uint64_t steps = 300;
  std::uint64_t every = 50;  // steps between checkpoints
  std::uint64_t batch = 240; // samples, over all ranks
  std::uint64_t killed_behind =
      0; // the step after which the last rank kills itself, to test a crash; 0: none
};

command_line read_command_line(int count, char** arguments) {
  command_line c;
  for (int i = 1; i < count; ++i) {
    const std::string_view flag = arguments[i];
    if (flag == "--watch") {
      c.watch = true;
      continue;
    }
    if (i + 1 == count) throw std::runtime_error(std::string(flag) + " needs a value");
    const std::string value = arguments[++i];
    if (flag == "--checkpoint") c.checkpoint = value;
    else if (flag == "--resume") c.resume = value;
    else if (flag == "--steps") c.steps = std::stoull(value);
    else if (flag == "--every") c.every = std::stoull(value);
    else if (flag == "--batch") c.batch = std::stoull(value);
    else if (flag == "--killed-behind") c.killed_behind = std::stoull(value);
    else throw std::runtime_error("unknown flag " + std::string(flag));
  }
  return c;
}

void train(const command_line& options, const fl::rank& rank) {
  if (options.batch % rank.world_size != 0)
    throw std::runtime_error("--batch " + std::to_string(options.batch) + " can't be divided evenly among " +
                             std::to_string(rank.world_size) + " ranks");
  const auto pipeline = fl::from(make_points(10'000)) //
                        | fl::global_shuffle()        //
                        | fl::map(jitter, fl::workers{2}) | fl::batch(options.batch / rank.world_size);

  training t = options.resume.empty() ? training() : load(options.resume);
  auto loader = pipeline.infinite({.seed = 7, .rank = rank, .resume = t.data});
  std::optional<fl::live_view> view;
  if (options.watch && rank.number == 0) view.emplace(loader);
  while (t.step < options.steps) {
    const auto batch = loader.next();
    sums total = gradient_of(t.weights, *batch);
    MPI_Allreduce(MPI_IN_PLACE, total.data(), static_cast<int>(total.size()), MPI_INT64_T, MPI_SUM,
                  MPI_COMM_WORLD);
    const auto mean = [&](std::int64_t sum) {
      return std::ldexp(static_cast<double>(sum), -32) / static_cast<double>(options.batch);
    };
    for (std::size_t i = 0; i < features; ++i) t.weights[i] -= 0.1 * mean(total[i]);
    ++t.step;
    if (rank.number == 0) {
      std::printf("step %llu loss %.17g\n", static_cast<unsigned long long>(t.step), mean(total[features]));
      std::fflush(stdout);
      if (!options.checkpoint.empty() && t.step % options.every == 0) {
        t.data = loader.checkpoint();
        save(t, options.checkpoint);
      }
    }
    if (t.step == options.killed_behind && rank.number == rank.world_size - 1) std::raise(SIGKILL);
  }
}

} // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int status = 0;
  try {
    const fl::rank rank = fl::rank::from_environment();
    if (rank.number == 0) std::fprintf(stderr, "%s\n", to_string(rank).c_str());
    train(read_command_line(count, arguments), rank);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpi_training: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, status = 1);
  }
  MPI_Finalize();
  return status;
}
