// SPDX-License-Identifier: MIT
#pragma once
// A small convolutional network in plain C++, trained by Adam:
//
//   [32, 32, 3] ─ convolution ▶ [16, 16, 16] ─ convolution ▶ [8, 8, 32] ─ convolution ▶ [4, 4, 64]
//               ─ mean ▶ [64] ─ dense ▶ [classes]
//
// Its input is pixels as a JPEG decoder writes them, colours innermost. It works on one image after another
// and sums in a fixed order, so that a seed gives the same weights on every run.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <feedline/feedline.hpp>

/// Learned numbers, with their gradients and the running averages that Adam needs.
class parameters {
 public:
  explicit parameters(std::size_t count)
      : values_(count), gradients_(count), means_(count), squares_(count) {}

  const float* values() const { return values_.data(); }

  float* gradients() { return gradients_.data(); }

  /// Draws the values from [-reach, reach).
  void randomize(feedline::random_generator& random, double reach) {
    for (float& value : values_) value = static_cast<float>(random.uniform(-reach, reach));
  }

  /// The state that a training saves: values, averages and their weights.
  void state(auto& archive) {
    archive(values_);
    archive(means_);
    archive(squares_);
    archive(mean_weight_);
    archive(square_weight_);
  }

  /// One step of Adam (Kingma and Ba, 2015), with the gradients summed over `samples`.
  void update(float rate, std::size_t samples) {
    constexpr float keep_mean = 0.9f, keep_square = 0.999f;
    mean_weight_ *= keep_mean;
    square_weight_ *= keep_square;
    const float step = rate * std::sqrt(1 - square_weight_) / (1 - mean_weight_);
    const float scale = 1 / static_cast<float>(samples);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const float gradient = scale * gradients_[i];
      means_[i] += (1 - keep_mean) * (gradient - means_[i]);
      squares_[i] += (1 - keep_square) * (gradient * gradient - squares_[i]);
      values_[i] -= step * means_[i] / (std::sqrt(squares_[i]) + 1e-8f);
      gradients_[i] = 0;
    }
  }

 private:
  std::vector<float> values_, gradients_;
  std::vector<float> means_, squares_;        // running averages of the gradients and their squares
  float mean_weight_ = 1, square_weight_ = 1; // of the initial zeros in the averages
};

/// The dot product, as eight separate sums so that the compiler can use vector registers.
inline float dot(const float* a, const float* b, std::size_t size) {
  std::array<float, 8> sums{};
  const std::size_t whole = size / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8)
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (std::size_t i = whole; i < size; ++i) sums[i % 8] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/// A 3 x 3 convolution with stride 2 and zero padding, then ReLU: [Side, Side, In] to [Side/2, Side/2, Out].
template <std::size_t Side, std::size_t In, std::size_t Out>
class convolution {
  static constexpr std::size_t out_side = Side / 2;

 public:
  using input = std::array<float, Side * Side * In>;
  using output = std::array<float, out_side * out_side * Out>;

  explicit convolution(feedline::random_generator& random) {
    weights_.randomize(random, std::sqrt(6.0 / (9 * In))); // He et al., 2015, for ReLU
  }

  void forward(const input& in, output& out) const {
    for_each_pixel([&](std::size_t position, std::size_t y, std::size_t x) {
      std::array<float, Out> sums;
      std::copy_n(biases_.values(), Out, sums.begin());
      for_each_tap(y, x, [&](std::size_t pixel, std::size_t tap) {
        for (std::size_t i = 0; i < In; ++i)
          for (std::size_t o = 0; o < Out; ++o)
            sums[o] += in[pixel + i] * weights_.values()[(tap * In + i) * Out + o];
      });
      for (std::size_t o = 0; o < Out; ++o) out[position + o] = std::max(sums[o], 0.0f);
    });
  }

  /// Adds to the gradients. `by_output` is the gradient of the loss by the output; `by_input`, unless null,
  /// receives the gradient by the input.
  void backward(const input& in, const output& out, const output& by_output, input* by_input) {
    if (by_input) by_input->fill(0);
    for_each_pixel([&](std::size_t position, std::size_t y, std::size_t x) {
      std::array<float, Out> slope;
      for (std::size_t o = 0; o < Out; ++o) slope[o] = out[position + o] > 0 ? by_output[position + o] : 0.0f;
      for (std::size_t o = 0; o < Out; ++o) biases_.gradients()[o] += slope[o];
      for_each_tap(y, x, [&](std::size_t pixel, std::size_t tap) {
        for (std::size_t i = 0; i < In; ++i) {
          const std::size_t weight = (tap * In + i) * Out;
          float* const gradient = weights_.gradients() + weight;
          for (std::size_t o = 0; o < Out; ++o) gradient[o] += in[pixel + i] * slope[o];
          if (by_input) (*by_input)[pixel + i] += dot(weights_.values() + weight, slope.data(), Out);
        }
      });
    });
  }

  void update(float rate, std::size_t samples) {
    weights_.update(rate, samples);
    biases_.update(rate, samples);
  }

  void state(auto& archive) {
    weights_.state(archive);
    biases_.state(archive);
  }

 private:
  template <class Function>
  static void for_each_pixel(Function function) {
    for (std::size_t y = 0; y < out_side; ++y)
      for (std::size_t x = 0; x < out_side; ++x) function((y * out_side + x) * Out, y, x);
  }

  // Calls `function` with the input pixels around an output position, without those in the padding.
  template <class Function>
  static void for_each_tap(std::size_t y, std::size_t x, Function function) {
    for (std::size_t tap = 0; tap < 9; ++tap) {
      const std::size_t in_y = 2 * y + tap / 3, in_x = 2 * x + tap % 3; // both shifted by 1
      if (in_y < 1 || in_y > Side || in_x < 1 || in_x > Side) continue;
      function(((in_y - 1) * Side + in_x - 1) * In, tap);
    }
  }

  parameters weights_{9 * In * Out}, biases_{Out};
};

/// The mean over all positions: [positions, Channels] to [Channels].
template <std::size_t Positions, std::size_t Channels>
struct mean {
  using input = std::array<float, Positions * Channels>;
  using output = std::array<float, Channels>;

  static void forward(const input& in, output& out) {
    out.fill(0);
    for (std::size_t i = 0; i < in.size(); ++i) out[i % Channels] += in[i] / float{Positions};
  }

  static void backward(const output& by_output, input& by_input) {
    for (std::size_t i = 0; i < by_input.size(); ++i)
      by_input[i] = by_output[i % Channels] / float{Positions};
  }
};

/// A layer whose outputs are weighted sums of all inputs. The weights start at zero, so that all classes are
/// equally likely.
template <std::size_t In>
class dense {
 public:
  using input = std::array<float, In>;

  explicit dense(std::size_t outputs) : weights_(In * outputs), biases_(outputs) {}

  void forward(const input& in, std::vector<float>& out) const {
    std::copy_n(biases_.values(), out.size(), out.begin());
    for (std::size_t i = 0; i < In; ++i)
      for (std::size_t o = 0; o < out.size(); ++o) out[o] += in[i] * weights_.values()[i * out.size() + o];
  }

  void backward(const input& in, const std::vector<float>& by_output, input& by_input) {
    const std::size_t outputs = by_output.size();
    for (std::size_t o = 0; o < outputs; ++o) biases_.gradients()[o] += by_output[o];
    for (std::size_t i = 0; i < In; ++i) {
      float* const gradient = weights_.gradients() + i * outputs;
      for (std::size_t o = 0; o < outputs; ++o) gradient[o] += in[i] * by_output[o];
      by_input[i] = dot(weights_.values() + i * outputs, by_output.data(), outputs);
    }
  }

  void update(float rate, std::size_t samples) {
    weights_.update(rate, samples);
    biases_.update(rate, samples);
  }

  void state(auto& archive) {
    weights_.state(archive);
    biases_.state(archive);
  }

 private:
  parameters weights_, biases_;
};

/// Classifies images of image_side x image_side pixels.
class classifier {
 public:
  static constexpr std::size_t image_side = 32;

  /// The results of a batch, before the weights changed.
  struct outcome {
    double loss = 0; ///< mean cross-entropy, in nats
    std::size_t correct = 0;
  };

  classifier(std::size_t classes, std::uint64_t seed)
      : classifier(classes, feedline::random_generator(seed)) {}

  /// Learns from a batch: pixels [size, image_side, image_side, 3], and labels [size], which are below the
  /// number of classes.
  outcome learn(std::span<const std::uint8_t> pixels, std::span<const std::int32_t> labels, float rate) {
    outcome result;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto label = static_cast<std::size_t>(labels[i]);
      forward(pixels.subspan(i * image_.size(), image_.size()));
      if (guess() == label) ++result.correct;
      result.loss += to_gradient(label) / static_cast<double>(labels.size());
      backward();
    }
    first_.update(rate, labels.size());
    second_.update(rate, labels.size());
    third_.update(rate, labels.size());
    last_.update(rate, labels.size());
    return result;
  }

  void state(auto& archive) {
    first_.state(archive);
    second_.state(archive);
    third_.state(archive);
    last_.state(archive);
  }

  /// Returns the likeliest class of one image, [image_side, image_side, 3].
  std::size_t classify(std::span<const std::uint8_t> pixels) {
    forward(pixels);
    return guess();
  }

 private:
  classifier(std::size_t classes, feedline::random_generator random)
      : first_(random), second_(random), third_(random), last_(classes), scores_(classes) {}

  void forward(std::span<const std::uint8_t> pixels) {
    normalize(pixels);
    first_.forward(image_, a_);
    second_.forward(a_, b_);
    third_.forward(b_, c_);
    pool::forward(c_, means_);
    last_.forward(means_, scores_);
  }

  /// Scales each colour to mean 0 and standard deviation 1 over the image, so that the light doesn't matter.
  void normalize(std::span<const std::uint8_t> pixels) {
    constexpr float count = image_side * image_side;
    for (std::size_t color = 0; color < 3; ++color) {
      float sum = 0, squares = 0;
      for (std::size_t i = color; i < pixels.size(); i += 3) sum += pixels[i];
      for (std::size_t i = color; i < pixels.size(); i += 3) image_[i] = pixels[i] - sum / count;
      for (std::size_t i = color; i < pixels.size(); i += 3) squares += image_[i] * image_[i];
      const float scale = 1 / std::sqrt(squares / count + 1);
      for (std::size_t i = color; i < pixels.size(); i += 3) image_[i] *= scale;
    }
  }

  std::size_t guess() const {
    return static_cast<std::size_t>(std::max_element(scores_.begin(), scores_.end()) - scores_.begin());
  }

  /// Turns the scores into the gradient of the loss by them and returns the loss: softmax and cross-entropy.
  double to_gradient(std::size_t label) {
    const float max = *std::max_element(scores_.begin(), scores_.end());
    const double wanted = scores_[label] - max;
    double sum = 0;
    for (float& score : scores_) sum += score = std::exp(score - max);
    for (float& score : scores_) score = static_cast<float>(score / sum);
    scores_[label] -= 1;
    return std::log(sum) - wanted;
  }

  void backward() {
    last_.backward(means_, scores_, by_means_);
    pool::backward(by_means_, by_c_);
    third_.backward(b_, c_, by_c_, &by_b_);
    second_.backward(a_, b_, by_b_, &by_a_);
    first_.backward(image_, a_, by_a_, nullptr);
  }

  convolution<image_side, 3, 16> first_;
  convolution<image_side / 2, 16, 32> second_;
  convolution<image_side / 4, 32, 64> third_;
  using pool = mean<image_side / 8 * (image_side / 8), 64>;
  dense<64> last_;

  // The activations of one image, and their gradients.
  decltype(first_)::input image_;
  decltype(first_)::output a_, by_a_;
  decltype(second_)::output b_, by_b_;
  decltype(third_)::output c_, by_c_;
  pool::output means_, by_means_;
  std::vector<float> scores_;
};
