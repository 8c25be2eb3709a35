// Smooth losses: Newton with backtracking.
#pragma once
#include "finish.hpp"

namespace halfstep::HALFSTEP_ISA {
template <class T>
bool solve_newton(const HalfStep<T>&, int64_t, const Cells<T>&, Workspace<T>&, Sums&) {
  return false;
}
}  // namespace halfstep::HALFSTEP_ISA
