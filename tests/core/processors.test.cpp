// SPDX-License-Identifier: MIT
#include <feedline/core/processors.hpp>

#include <filesystem>
#include <optional>
#include <string>

#include <sched.h>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

/// A tree of control groups as the kernel shows it.
class groups {
 public:
  groups& with(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_ / path).parent_path());
    folder_.write(path, text);
    return *this;
  }

  double quota(const std::string& membership) const {
    return fl::detail::processor_quota(membership, folder_.path()).value_or(0);
  }

 private:
  temporary_folder folder_;
};

} // namespace

TEST_CASE("There is at least one processor, and the affinity mask limits the number") {
  REQUIRE(fl::processors() >= 1);
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  CHECK(fl::processors() <= static_cast<std::size_t>(CPU_COUNT(&before)));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t i = 0; CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  CHECK(fl::processors() == 1);
  REQUIRE(sched_setaffinity(0, sizeof(before), &before) == 0);
}

TEST_CASE("In version 2 the smallest quota of a group and those around it applies") {
  groups g;
  g.with("cpu.max", "max 100000\n")
      .with("jobs/cpu.max", "350000 100000\n")
      .with("jobs/mine/cpu.max", "max 100000\n")
      .with("jobs/small/cpu.max", "50000 100000\n");
  CHECK(g.quota("0::/jobs/mine\n") == 3.5);
  CHECK(g.quota("0::/jobs/small\n") == 0.5);
  CHECK(g.quota("0::/jobs\n") == 3.5);
  CHECK(g.quota("0::/\n") == 0);
  CHECK(g.quota("0::/jobs/mine/deeper/than/is/shown\n") == 3.5);
  CHECK(groups().with("cpu.max", "200000 100000\n").quota("0::/../outside\n") == 2);
}

TEST_CASE("In version 1 the hierarchy of processors applies") {
  groups g;
  g.with("cpu,cpuacct/box/cpu.cfs_quota_us", "150000\n")
      .with("cpu,cpuacct/box/cpu.cfs_period_us", "50000\n")
      .with("cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
      .with("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(g.quota("5:memory:/other\n3:cpu,cpuacct:/box\n2:cpuset:/\n") == 3);
  CHECK(g.quota("3:cpu,cpuacct:/\n") == 0);
  CHECK(g.quota("3:cpuset:/box\n") == 0);
}

TEST_CASE("A quota is rounded up to whole processors") {
  const auto within = [](double quota) { return fl::detail::processors_within(quota, 8); };
  CHECK(within(0.01) == 1);
  CHECK(within(1) == 1);
  CHECK(within(1.5) == 2);
  CHECK(within(2) == 2);
  CHECK(within(2.001) == 3);
  CHECK(within(7.5) == 8);
  CHECK(within(8.5) == 8);
  CHECK(within(1e300) == 8);
  CHECK(fl::detail::processors_within(std::nullopt, 8) == 8);
  CHECK(groups().with("cpu.max", "150000 100000\n").quota("0::/") == 1.5);
}

TEST_CASE("Invalid quotas are ignored") {
  for (const char* text : {"", "\n", "max", "x y", "-5 100000", "100000", "100000 0", "nan nan", "1e400 1"}) {
    INFO(text);
    CHECK(groups().with("cpu.max", text).quota("0::/") >= 0);
  }
  for (const char* membership :
       {"", "\n\n", "0", "0:", ":", "0::", "1:cpu", "no colons at all", "0::no/slash"})
    CHECK(groups().quota(membership) == 0);
}
