// Products of sparse matrices of which only the best columns of each row are wanted: recommendations from an item-item
// matrix, and the nearest neighbours of items. A worker holds one row of the product at a time, never the whole.
#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include "parallel.hpp"

namespace halfstep {

template <class T>
struct Compressed {  // CSR
  const int64_t* indptr = nullptr;
  const int32_t* indices = nullptr;
  const T* values = nullptr;
};

// The best k columns of every row of left * right. Columns that may be chosen stand in `order`, which also decides
// between equal scores. Columns that the product does not touch score 0; with `positive` only scores above 0 count.
template <class T>
struct BestOfProduct {
  Compressed<T> left, right;
  const int32_t* order = nullptr;
  const int64_t* seen_indptr = nullptr;  // rows of columns that are left out; null for none
  const int32_t* seen_indices = nullptr;
  int64_t n_rows = 0, n_columns = 0, n_order = 0;
  int k = 0;
  bool positive = false;
  int32_t* indices = nullptr;  // (n_rows, k), -1 at the end of short lists
  T* scores = nullptr;         // (n_rows, k), NaN there
};

template <class T>
class ProductRow {
 public:
  ProductRow(const BestOfProduct<T>& p, const std::vector<int32_t>& place)
      : p_(p), place_(place), sum_(p.n_columns), touched_at_(p.n_columns, -1), seen_at_(p.n_columns, -1) {}

  void best(int64_t row) {
    accumulate(row);
    above_.clear(), below_.clear();
    for (const int32_t j : touched_) {
      if (place_[j] < 0 || seen_at_[j] == row) continue;
      if (sum_[j] > 0) above_.push_back(j);
      if (sum_[j] < 0) below_.push_back(j);
    }
    n_ = 0;
    take(above_, row);
    if (p_.positive) return pad(row);
    for (int64_t at = 0; n_ < p_.k && at < p_.n_order; ++at) {
      const int32_t j = p_.order[at];
      if (seen_at_[j] != row && (touched_at_[j] != row || sum_[j] == 0)) put(row, j, T(0));
    }
    take(below_, row);
    pad(row);
  }

 private:
  void accumulate(int64_t row) {
    touched_.clear();
    for (int64_t c = p_.left.indptr[row]; c < p_.left.indptr[row + 1]; ++c) {
      const T times = p_.left.values[c];
      const int64_t i = p_.left.indices[c];
      for (int64_t e = p_.right.indptr[i]; e < p_.right.indptr[i + 1]; ++e) {
        const int32_t j = p_.right.indices[e];
        if (touched_at_[j] != row) touched_at_[j] = row, sum_[j] = 0, touched_.push_back(j);
        sum_[j] += times * p_.right.values[e];
      }
    }
    if (p_.seen_indptr)
      for (int64_t s = p_.seen_indptr[row]; s < p_.seen_indptr[row + 1]; ++s) seen_at_[p_.seen_indices[s]] = row;
  }

  void take(std::vector<int32_t>& from, int64_t row) {
    const size_t wanted = std::min(from.size(), size_t(p_.k - n_));
    std::partial_sort(from.begin(), from.begin() + wanted, from.end(), [&](int32_t a, int32_t b) {
      return sum_[a] != sum_[b] ? sum_[a] > sum_[b] : place_[a] < place_[b];
    });
    for (size_t r = 0; r < wanted; ++r) put(row, from[r], sum_[from[r]]);
  }

  void put(int64_t row, int32_t column, T score) {
    p_.indices[row * p_.k + n_] = column, p_.scores[row * p_.k + n_] = score, ++n_;
  }

  void pad(int64_t row) {
    while (n_ < p_.k) put(row, -1, std::numeric_limits<T>::quiet_NaN());
  }

  const BestOfProduct<T>& p_;
  const std::vector<int32_t>& place_;  // of a column in `order`; -1 where it may not be chosen
  std::vector<T> sum_;
  std::vector<int64_t> touched_at_, seen_at_;  // the last row that did
  std::vector<int32_t> touched_, above_, below_;
  int n_ = 0;
};

template <class T>
void best_of_product(const BestOfProduct<T>& p, int n_threads) {
  std::vector<int32_t> place(p.n_columns, -1);
  for (int64_t at = 0; at < p.n_order; ++at) place[p.order[at]] = int32_t(at);
  const int64_t share = 32, n_tasks = (p.n_rows + share - 1) / share;
  n_threads = int(std::max<int64_t>(1, std::min<int64_t>(n_threads, n_tasks)));
  std::vector<ProductRow<T>> workers(n_threads, ProductRow<T>(p, place));
  parallel(n_threads, n_tasks, [&](int worker, int64_t task) {
    for (int64_t row = task * share; row < std::min(task * share + share, p.n_rows); ++row) workers[worker].best(row);
  });
}

}  // namespace halfstep
