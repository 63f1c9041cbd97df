// SPDX-License-Identifier: MIT
// Nothing: what the compiler itself takes.
