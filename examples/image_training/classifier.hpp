// SPDX-License-Identifier: MIT
#pragma once
// A small convolutional network in plain C++, trained by Adam:
//
//   [32, 32, 3] ─ convolution ▶ [16, 16, 16] ─ convolution ▶ [8, 8, 32] ─ convolution ▶ [4, 4, 64]
//               ─ mean ▶ [64] ─ dense ▶ [classes]
//
// It takes pixels as a JPEG decoder gives them, colours innermost, and works on one image after another: its
// sums have one order, so that a seed gives the same weights whatever the machine does meanwhile.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <feedline/feedline.hpp>

/// Numbers that are learnt, with what was summed up to change them by.
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

  /// What is learnt and how fast, for a file.
  void state(auto& archive) {
    archive(values_);
    archive(means_);
    archive(squares_);
    archive(mean_weight_);
    archive(square_weight_);
  }

  /// One step of Adam (Kingma and Ba, 2015) down the gradients, summed up over `samples`.
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
  std::vector<float> means_, squares_;        // of the gradients, running
  float mean_weight_ = 1, square_weight_ = 1; // of the zeros that these began with
};

/// The sum of products, as eight sums side by side so that the compiler may use vector registers.
inline float dot(const float* a, const float* b, std::size_t size) {
  std::array<float, 8> sums{};
  const std::size_t whole = size / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8)
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (std::size_t i = whole; i < size; ++i) sums[i % 8] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/// 3 x 3 convolution in steps of 2 with a border of zeros, then ReLU: [Side, Side, In] to [Side/2, Side/2,
/// Out].
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
    for_each_pixel([&](std::size_t place, std::size_t y, std::size_t x) {
      std::array<float, Out> sums;
      std::copy_n(biases_.values(), Out, sums.begin());
      for_each_tap(y, x, [&](std::size_t pixel, std::size_t tap) {
        for (std::size_t i = 0; i < In; ++i)
          for (std::size_t o = 0; o < Out; ++o)
            sums[o] += in[pixel + i] * weights_.values()[(tap * In + i) * Out + o];
      });
      for (std::size_t o = 0; o < Out; ++o) out[place + o] = std::max(sums[o], 0.0f);
    });
  }

  /// Adds to the gradients, given the output and the gradient of the loss by it; `by_input`, unless null,
  /// becomes the gradient by the input.
  void backward(const input& in, const output& out, const output& by_output, input* by_input) {
    if (by_input) by_input->fill(0);
    for_each_pixel([&](std::size_t place, std::size_t y, std::size_t x) {
      std::array<float, Out> slope;
      for (std::size_t o = 0; o < Out; ++o) slope[o] = out[place + o] > 0 ? by_output[place + o] : 0.0f;
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

  // The pixels of the input around an output's place, without those of the border.
  template <class Function>
  static void for_each_tap(std::size_t y, std::size_t x, Function function) {
    for (std::size_t tap = 0; tap < 9; ++tap) {
      const std::size_t in_y = 2 * y + tap / 3, in_x = 2 * x + tap % 3; // both 1 too large
      if (in_y < 1 || in_y > Side || in_x < 1 || in_x > Side) continue;
      function(((in_y - 1) * Side + in_x - 1) * In, tap);
    }
  }

  parameters weights_{9 * In * Out}, biases_{Out};
};

/// The mean over all places: [places, Channels] to [Channels].
template <std::size_t Places, std::size_t Channels>
struct mean {
  using input = std::array<float, Places * Channels>;
  using output = std::array<float, Channels>;

  static void forward(const input& in, output& out) {
    out.fill(0);
    for (std::size_t i = 0; i < in.size(); ++i) out[i % Channels] += in[i] / float{Places};
  }

  static void backward(const output& by_output, input& by_input) {
    for (std::size_t i = 0; i < by_input.size(); ++i) by_input[i] = by_output[i % Channels] / float{Places};
  }
};

/// Every output is a weighted sum of all inputs. Begins at zero: at first all classes are equally likely.
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

/// Tells images of image_side x image_side pixels apart.
class classifier {
 public:
  static constexpr std::size_t image_side = 32;

  /// What learning a batch told about it, before the weights changed.
  struct outcome {
    double loss = 0; ///< mean cross-entropy, in nats
    std::size_t correct = 0;
  };

  classifier(std::size_t classes, std::uint64_t seed)
      : classifier(classes, feedline::random_generator(seed)) {}

  /// Learns a batch: pixels [size, image_side, image_side, 3], labels [size], each below the number of
  /// classes.
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

  /// The likeliest class of one image, [image_side, image_side, 3].
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

  /// Gives each colour the mean 0 and the deviation 1 over the image, so that the light doesn't matter.
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

  /// Turns the scores into the gradient of the loss by them, and gives the loss: softmax and cross-entropy.
  double to_gradient(std::size_t label) {
    const float most = *std::max_element(scores_.begin(), scores_.end());
    const double wanted = scores_[label] - most;
    double sum = 0;
    for (float& score : scores_) sum += score = std::exp(score - most);
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

  // One image on its way through the layers, and the gradients on their way back.
  decltype(first_)::input image_;
  decltype(first_)::output a_, by_a_;
  decltype(second_)::output b_, by_b_;
  decltype(third_)::output c_, by_c_;
  pool::output means_, by_means_;
  std::vector<float> scores_;
};
