// SPDX-License-Identifier: MIT
// A training that can be interrupted. Press Ctrl-C and continue with --resume: the result is the same to the
// last bit as without the interruption, both the weights and the digest of all samples in their order.
// Usage: resume [--checkpoint FILE] [--resume FILE] [--steps N]
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

namespace fl = feedline;

namespace {

constexpr std::size_t features = 8;

struct point {
  std::array<float, features> x;
  float y;
};

/// Points on a plane, with some noise.
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

/// Moves a point a little, differently in each epoch.
point jitter(point p, fl::context& context) {
  for (float& x : p.x) x += static_cast<float>(context.random.uniform(-0.01, 0.01));
  return p;
}

/// Linear regression by gradient descent.
struct model {
  std::array<float, features> weights{};

  /// Learns from a batch. Returns the mean squared error before the weights change.
  template <class Batch>
  float learn(const Batch& batch) {
    const fl::tensor<float>& x = batch.template get<&point::x>();
    const fl::tensor<float>& y = batch.template get<&point::y>();
    std::array<float, features> gradient{};
    float loss = 0;
    for (std::size_t row = 0; row < batch.size(); ++row) {
      float error = -y[row];
      for (std::size_t i = 0; i < features; ++i) error += weights[i] * x[row * features + i];
      for (std::size_t i = 0; i < features; ++i) gradient[i] += error * x[row * features + i];
      loss += error * error;
    }
    for (std::size_t i = 0; i < features; ++i)
      weights[i] -= 0.1f * gradient[i] / static_cast<float>(batch.size());
    return loss / static_cast<float>(batch.size());
  }
};

/// The whole state of a training: the number of steps, the learned weights, and the state of the loader.
struct training {
  std::uint64_t step = 0;
  model learned;
  std::optional<fl::checkpoint> data;
};

void save(const training& t, const std::string& path) {
  const std::string draft = path + ".draft"; // if the process is killed now, the previous file is still there
  std::ofstream file(draft);
  file << "step " << t.step << "\nweights";
  for (const float w : t.learned.weights) {
    char text[32];
    std::snprintf(text, sizeof text, " %a", static_cast<double>(w)); // exact
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
  for (float& w : t.learned.weights) {
    fits = fits && file >> word;
    w = fits ? std::stof(word) : 0;
  }
  if (!fits) throw std::runtime_error(path + " is not the checkpoint of an interrupted training");
  t.data = fl::checkpoint::from_json(std::string(std::istreambuf_iterator<char>(file), {}));
  return t;
}

int run(const std::string& checkpoint, const std::string& resume, std::uint64_t steps) {
  const auto pipeline = fl::from(make_points(20'000)) //
                        | fl::global_shuffle()        //
                        | fl::map(jitter, fl::workers{2}) | fl::batch(64);

  training t = resume.empty() ? training() : load(resume);
  const fl::stop_on_signal interrupt(SIGINT, SIGTERM);
  auto loader = pipeline.infinite({.seed = 7, .stop = interrupt.token(), .resume = t.data});
  while (t.step < steps) {
    const auto batch = loader.next();
    if (!batch) break; // interrupted
    const float loss = t.learned.learn(*batch);
    if (++t.step % 500 == 0)
      std::printf("step %llu  loss %.5f\n", static_cast<unsigned long long>(t.step), loss);
  }
  t.data = loader.checkpoint();
  save(t, checkpoint);
  if (t.step < steps) {
    std::printf("interrupted after step %llu; continue with --resume %s\n",
                static_cast<unsigned long long>(t.step), checkpoint.c_str());
    return 128 + interrupt.signal();
  }
  std::printf("weights");
  for (const float w : t.learned.weights) std::printf(" %.6f", static_cast<double>(w));
  std::printf("\ndigest of the samples %016llx\n", static_cast<unsigned long long>(loader.digest()));
  return 0;
}

} // namespace

int main(int count, char** arguments) {
  std::string checkpoint = "training.checkpoint", resume;
  std::uint64_t steps = 5000;
  try {
    for (int i = 1; i < count; ++i) {
      const std::string_view flag = arguments[i];
      if (i + 1 == count)
        throw std::runtime_error("usage: resume [--checkpoint FILE] [--resume FILE] [--steps N]");
      const std::string value = arguments[++i];
      if (flag == "--checkpoint") checkpoint = value;
      else if (flag == "--resume") resume = value;
      else if (flag == "--steps") steps = std::stoull(value);
      else throw std::runtime_error("unknown flag " + std::string(flag));
    }
    return run(checkpoint, resume, steps);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "resume: %s\n", error.what());
    return 1;
  }
}
