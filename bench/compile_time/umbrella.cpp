// SPDX-License-Identifier: MIT
#include <feedline/feedline.hpp>
