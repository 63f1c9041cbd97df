// SPDX-License-Identifier: MIT
#pragma once
// A small convolutional network over time in plain C++, trained by gradient descent with momentum:
//
//   [mels, frames] ─ means ▶ [≤ 64, ≤ 128] ─ convolution ▶ [32, frames/2] ─ convolution ▶ [48, frames/4] ─ convolution ▶ [64, frames/8]
//                  ─ mean and maximum over time ▶ [128] ─ dense ▶ [classes]
//
// It works on one clip after another and sums in a fixed order, so that a seed gives the same weights on
// every run.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include <feedline/core/random.hpp>
#include <feedline/stage/batch.hpp>

/// Learned numbers, with their gradients and momenta.
struct parameters {
  std::vector<float> values, gradients, speeds;

  explicit parameters(std::size_t count) : values(count), gradients(count), speeds(count) {}

  /// Draws the values from [-reach, reach).
  void randomize(feedline::random_generator& random, double reach) {
    for (float& value : values) value = static_cast<float>(random.uniform(-reach, reach));
  }

  void update(float rate, std::size_t samples) {
    const float scale = 1 / static_cast<float>(samples);
    for (std::size_t i = 0; i < values.size(); ++i) {
      speeds[i] = 0.9f * speeds[i] + scale * gradients[i];
      values[i] -= rate * (speeds[i] + 1e-4f * values[i]);
      gradients[i] = 0;
    }
  }
};

/// A convolution over time with stride 2 and zero padding, then ReLU: [frames, in] to [(frames + 1) / 2,
/// out].
class convolution {
  static constexpr std::size_t taps = 5;

 public:
  convolution(std::size_t in, std::size_t out, feedline::random_generator& random)
      : in_(in), out_(out), weights_(taps * in * out), biases_(out) {
    weights_.randomize(random, std::sqrt(6.0 / static_cast<double>(taps * in))); // He et al., 2015, for ReLU
  }

  void forward(const std::vector<float>& input, std::vector<float>& output) const {
    const std::size_t frames = input.size() / in_;
    output.resize((frames + 1) / 2 * out_);
    for (std::size_t t = 0; t < (frames + 1) / 2; ++t) {
      float* const sums = output.data() + t * out_;
      std::copy(biases_.values.begin(), biases_.values.end(), sums);
      for_each_tap(t, frames, [&](std::size_t frame, std::size_t tap) {
        for (std::size_t i = 0; i < in_; ++i) {
          const float x = input[frame * in_ + i];
          const float* const weight = weights_.values.data() + (tap * in_ + i) * out_;
          for (std::size_t o = 0; o < out_; ++o) sums[o] += x * weight[o];
        }
      });
      for (std::size_t o = 0; o < out_; ++o) sums[o] = std::max(sums[o], 0.0f);
    }
  }

  /// Adds to the gradients. `slope` is the gradient of the loss by the output; the function zeroes it where
  /// ReLU cut the output off. `by_input`, unless null, receives the gradient by the input.
  void backward(const std::vector<float>& input, const std::vector<float>& output, std::vector<float>& slope,
                std::vector<float>* by_input) {
    const std::size_t frames = input.size() / in_;
    if (by_input) by_input->assign(input.size(), 0);
    for (std::size_t i = 0; i < slope.size(); ++i)
      if (output[i] <= 0) slope[i] = 0;
    for (std::size_t t = 0; t < (frames + 1) / 2; ++t) {
      const float* const by_output = slope.data() + t * out_;
      for (std::size_t o = 0; o < out_; ++o) biases_.gradients[o] += by_output[o];
      for_each_tap(t, frames, [&](std::size_t frame, std::size_t tap) {
        for (std::size_t i = 0; i < in_; ++i) {
          const float x = input[frame * in_ + i];
          const float* const weight = weights_.values.data() + (tap * in_ + i) * out_;
          float* const gradient = weights_.gradients.data() + (tap * in_ + i) * out_;
          for (std::size_t o = 0; o < out_; ++o) gradient[o] += x * by_output[o];
          if (by_input) (*by_input)[frame * in_ + i] += dot(weight, by_output);
        }
      });
    }
  }

  void update(float rate, std::size_t samples) {
    weights_.update(rate, samples);
    biases_.update(rate, samples);
  }

 private:
  // Calls `function` with the input frames around output frame t, without those in the padding.
  template <class Function>
  static void for_each_tap(std::size_t t, std::size_t frames, Function function) {
    for (std::size_t tap = 0; tap < taps; ++tap)
      if (const std::size_t frame = 2 * t + tap; frame >= taps / 2 && frame < frames + taps / 2)
        function(frame - taps / 2, tap);
  }

  // Eight separate sums, so that the compiler can use vector registers.
  float dot(const float* a, const float* b) const {
    float sums[8] = {};
    const std::size_t whole = out_ / 8 * 8;
    for (std::size_t i = 0; i < whole; i += 8)
      for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
    for (std::size_t i = whole; i < out_; ++i) sums[i % 8] += a[i] * b[i];
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
  }

  std::size_t in_, out_;
  parameters weights_, biases_;
};

class classifier {
 public:
  struct outcome {
    double loss = 0;         // mean
    std::size_t correct = 0; // clips
  };

  classifier(std::size_t mels, std::size_t classes, std::uint64_t seed)
      : classifier(mels, classes, feedline::random_generator(seed)) {}

  /// Learns from spectrograms [size, mels, frames] of decibels or logarithms, and their labels [size], which
  /// are below the number of classes. Clips without a label are left out. Returns within the time of one clip
  /// after a stop is requested.
  outcome learn(std::span<const float> spectrograms, const feedline::masked_tensor<std::int32_t>& labels,
                float rate, const std::stop_token& stop) {
    outcome result;
    std::size_t count = 0;
    const std::size_t size = spectrograms.size() / labels.values.size();
    for (std::size_t i = 0; i < labels.values.size() && !stop.stop_requested(); ++i) {
      if (!labels.valid[i]) continue;
      const auto label = static_cast<std::size_t>(labels.values[i]);
      if (label >= scores_.size()) continue; // its file couldn't be read when the classes were counted
      forward(spectrograms.subspan(i * size, size));
      if (guess() == label) ++result.correct;
      result.loss += to_gradient(label);
      backward();
      ++count;
    }
    if (count == 0) return result;
    result.loss /= static_cast<double>(count);
    for (convolution* layer : {&first_, &second_, &third_}) layer->update(rate, count);
    weights_.update(rate, count);
    return result;
  }

  /// Returns the likeliest class of one spectrogram, [mels, frames].
  std::size_t classify(std::span<const float> spectrogram) {
    forward(spectrogram);
    return guess();
  }

 private:
  static constexpr std::size_t features = 64;
  static constexpr std::size_t most_mels = 64, most_frames = 128;

  classifier(std::size_t mels, std::size_t classes, feedline::random_generator random)
      : mels_(mels),
        mels_together_((mels + most_mels - 1) / most_mels),
        first_((mels + mels_together_ - 1) / mels_together_, 32, random),
        second_(32, 48, random),
        third_(48, features, random),
        weights_((2 * features + 1) * classes),
        scores_(classes) {}

  void forward(std::span<const float> spectrogram) {
    normalize(spectrogram);
    first_.forward(input_, a_);
    second_.forward(a_, b_);
    third_.forward(b_, c_);
    pool();
    for (std::size_t k = 0; k < scores_.size(); ++k) {
      const float* const weight = weights_.values.data() + k * (2 * features + 1);
      scores_[k] = weight[2 * features];
      for (std::size_t f = 0; f < 2 * features; ++f) scores_[k] += weight[f] * pooled_[f];
    }
  }

  /// Transposes to [frames, mels] and scales to mean 0 and standard deviation 1, so that loudness doesn't
  /// matter. If there are more mels or frames than a small network needs, neighbours are averaged.
  void normalize(std::span<const float> spectrogram) {
    const std::size_t frames = spectrogram.size() / mels_;
    const std::size_t frames_together = (frames + most_frames - 1) / most_frames;
    const std::size_t mels = (mels_ + mels_together_ - 1) / mels_together_;
    input_.assign((frames + frames_together - 1) / frames_together * mels, 0);
    for (std::size_t mel = 0; mel < mels_; ++mel)
      for (std::size_t t = 0; t < frames; ++t)
        input_[t / frames_together * mels + mel / mels_together_] += spectrogram[mel * frames + t];
    double sum = 0, squares = 0;
    const auto count = static_cast<double>(input_.size());
    for (const float x : input_) sum += x;
    for (const float x : input_) squares += (x - sum / count) * (x - sum / count);
    const double scale = 1 / std::sqrt(squares / count + 1e-6);
    for (float& x : input_) x = static_cast<float>((x - sum / count) * scale);
  }

  /// The mean and the maximum over time of each feature, and the frame of the maximum.
  void pool() {
    const std::size_t frames = c_.size() / features;
    pooled_.assign(2 * features, 0);
    highest_.assign(features, 0);
    for (std::size_t f = 0; f < features; ++f) {
      for (std::size_t t = 0; t < frames; ++t) {
        pooled_[f] += c_[t * features + f] / static_cast<float>(frames);
        if (c_[t * features + f] > c_[highest_[f] * features + f]) highest_[f] = t;
      }
      pooled_[features + f] = c_[highest_[f] * features + f];
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
    by_pooled_.assign(2 * features, 0);
    for (std::size_t k = 0; k < scores_.size(); ++k) {
      const std::size_t row = k * (2 * features + 1);
      for (std::size_t f = 0; f < 2 * features; ++f) {
        weights_.gradients[row + f] += scores_[k] * pooled_[f];
        by_pooled_[f] += scores_[k] * weights_.values[row + f];
      }
      weights_.gradients[row + 2 * features] += scores_[k];
    }
    const std::size_t frames = c_.size() / features;
    by_c_.resize(c_.size());
    for (std::size_t t = 0; t < frames; ++t)
      for (std::size_t f = 0; f < features; ++f)
        by_c_[t * features + f] = by_pooled_[f] / static_cast<float>(frames);
    for (std::size_t f = 0; f < features; ++f) by_c_[highest_[f] * features + f] += by_pooled_[features + f];
    third_.backward(b_, c_, by_c_, &by_b_);
    second_.backward(a_, b_, by_b_, &by_a_);
    first_.backward(input_, a_, by_a_, nullptr);
  }

  std::size_t mels_, mels_together_;
  convolution first_, second_, third_;
  parameters weights_; // [classes, 2 * features + 1]: the last one of each class is the bias

  // The activations of one clip, and their gradients.
  std::vector<float> input_, a_, b_, c_, pooled_, scores_;
  std::vector<float> by_a_, by_b_, by_c_, by_pooled_;
  std::vector<std::size_t> highest_; // for each feature, the frame of its maximum
};
