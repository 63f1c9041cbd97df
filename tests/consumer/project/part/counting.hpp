// SPDX-License-Identifier: MIT
#pragma once

[[gnu::visibility("default")]] int count_up_to(int end);
