// SPDX-License-Identifier: MIT
#pragma once
// A stage that one worker at a time calls.
#include <mutex>

#include <feedline/core/contract.hpp>
#include <feedline/core/run/sample_worker.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Lets workers share a stage that was to run on one thread: one worker at a time calls its function.
template <class S>
class one_at_a_time {
 public:
  using feedline_part = void;
  using on_one_thread = S;
  static constexpr stage_traits traits{.kind = kind_of<S>(),
                                       .stateless = true,
                                       .one_to_one = traits_of<S>().one_to_one,
                                       .data_independent_count = traits_of<S>().data_independent_count,
                                       .position_from_last_sample = traits_of<S>().position_from_last_sample,
                                       .checkpoints_mid_call = true};

  explicit one_at_a_time(S stage) : stage_(std::move(stage)), mutex_(std::make_shared<std::mutex>()) {}

  std::string whole_name() const { return stage_name(stage_); }

  std::uint64_t fingerprint() const {
    if constexpr (requires { stage_.fingerprint(); }) return stage_.fingerprint();
    else return 0;
  }

  template <class In>
  static consteval fit fits() {
    return fit_of<S, In>();
  }

  template <class In>
  known_bytes bytes_given(known_bytes in) const {
    return detail::bytes_given<In>(stage_, in);
  }

  template <class In>
  known_bytes bytes_gathered(known_bytes in) const
    requires part_of_library<S> && requires(const S& s) { s.template bytes_gathered<In>(in); }
  {
    return stage_.template bytes_gathered<In>(in);
  }

  std::size_t bytes_held() const
    requires requires(const S& s) { s.bytes_held(); }
  {
    return stage_.bytes_held();
  }

  std::string unknown() const
    requires part_of_library<S> && requires(const S& s) { s.unknown(); }
  {
    return stage_.unknown();
  }

  template <class In>
  class running {
   public:
    using output = stage_output_t<S, In>;

    running(bound_t<S, In>&& stage, std::shared_ptr<std::mutex> mutex, const part_names& parts)
        : stage_(std::move(stage)), mutex_(std::move(mutex)), parts_(parts) {}

    // Emitted after the lock is released: stages downstream may take long.
    void operator()(sample<In>&& s, auto& emit, context& c) {
      collector made{{}, s.id, parts_};
      std::exception_ptr error;
      try {
        const std::lock_guard lock(*mutex_);
        call_stage(stage_, std::move(s), made, c);
      } catch (...) {
        error = std::current_exception();
      }
      auto failure = made.all.failures.begin();
      const auto hand_on_failures = [&](std::size_t position) {
        for (; failure != made.all.failures.end() && failure->position == position; ++failure)
          emit.failed(std::move(failure->failure));
      };
      for (std::size_t i = 0; i < made.all.values.size(); ++i) {
        hand_on_failures(i);
        if (!emit(std::move(made.all.values[i]))) return;
      }
      hand_on_failures(made.all.values.size());
      if (error) std::rethrow_exception(error);
    }

   private:
    struct collector {
      template <class V>
        requires std::constructible_from<output, V>
      bool operator()(V&& value) {
        const bool names_parts = traits_of<S>().checkpoints_mid_call;
        return (*this)(sample<output>{output(std::forward<V>(value)),
                                      names_parts ? id : parts.part_of(id, all.values.size())});
      }

      bool operator()(sample<output>&& s) {
        all.values.push_back(std::move(s));
        return true;
      }

      bool failed(failure_ptr f) {
        all.failures.push_back({all.values.size(), std::move(f)});
        return true;
      }

      void enough() const noexcept {}

      void hand_over() const noexcept {}

      outcomes<output> all;
      sample_id id;
      const part_names& parts;
    };

    bound_t<S, In> stage_;
    std::shared_ptr<std::mutex> mutex_;
    part_names parts_;
  };

  template <class In>
  running<In> bind(const stage_info& info) const {
    if constexpr (binds_to<S, In>) return running<In>(stage_.template bind<In>(info), mutex_, info.parts);
    else return running<In>(bound_t<S, In>(stage_), mutex_, info.parts);
  }

 private:
  S stage_;
  std::shared_ptr<std::mutex> mutex_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
