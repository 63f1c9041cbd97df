// SPDX-License-Identifier: MIT
#pragma once
// The component feedline::python: pipelines as Python iterators over NumPy arrays.
#include <feedline/python/bind_loader.hpp>
