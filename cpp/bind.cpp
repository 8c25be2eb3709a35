// The Python face of the core. Checks shapes and releases the GIL; no arithmetic of its own.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bound.hpp"
#include "csr.hpp"
#include "drawn.hpp"
#include "products.hpp"
#include "screen.hpp"

using namespace nb::literals;

namespace halfstep {

void no_memory() { throw std::bad_alloc(); }

namespace {

std::vector<const InstructionSet*> available() {
  std::vector<const InstructionSet*> sets;
#if defined(HALFSTEP_HAS_avx512)
  if (__builtin_cpu_supports("x86-64-v4")) sets.push_back(&avx512::instruction_set());
#endif
#if defined(HALFSTEP_HAS_avx2)
  if (__builtin_cpu_supports("x86-64-v3")) sets.push_back(&avx2::instruction_set());
#endif
  sets.push_back(&baseline::instruction_set());
  return sets;
}

const InstructionSet* active = nullptr;

}  // namespace

template <>
const Kernels<float>& kernels<float>() {
  return active->single;
}
template <>
const Kernels<double>& kernels<double>() {
  return active->twice;
}

namespace {

// Vectors of bytes as wide as those of the path in use; the narrowest path has none.
const ByteProducts* active_bytes() {
  const std::string path = active->name;
  return path == "baseline" ? nullptr : byte_products(path == "avx512");
}

template <class T>
void bind_number(nb::module_& m) {
  m.def(
      "gram",
      [](In<T> x, int n_threads) {
        const int d = columns_of(x, "x must be two-dimensional");
        auto out = make<double>({size_t(d), size_t(d)});
        {
          nb::gil_scoped_release released;
          gram(kernels<T>(), x.data(), int64_t(x.shape(0)), d, out.data(), n_threads);
        }
        return out;
      },
      "x"_a.noconvert(), "n_threads"_a, "x'x in float64, the same bits for any number of threads.");

  m.def(
      "rotate",
      [](Array<T> x, In<T> basis, int start, int n_threads) {
        const int d = columns_of(x, "x must be two-dimensional"), f = columns_of(basis, "basis must be square");
        expect(basis.shape(0) == basis.shape(1), "basis must be square");
        expect(start >= 0 && start + f <= d, "basis must fit into the columns of x");
        const int64_t n = int64_t(x.shape(0)), share = 4096;
        nb::gil_scoped_release released;
        parallel(n_threads, (n + share - 1) / share, [&](int, int64_t task) {
          const int64_t first = task * share;
          kernels<T>().rotate(x.data() + first * d, std::min(share, n - first), d, start, f, basis.data());
        });
      },
      "x"_a.noconvert(), "basis"_a.noconvert(), "start"_a, "n_threads"_a, "x[:, start:start+f] @= basis, in place.");

  m.def(
      "top_k",
      [](In<T> left, In<T> right, int k, MaybeIn<int64_t> rows, MaybeIn<int64_t> seen_indptr,
         MaybeIn<int32_t> seen_indices, int n_threads) {
        const int d = columns_of(left, "left must be two-dimensional");
        expect(columns_of(right, "right must be two-dimensional") == d,
               "left and right must have the same number of columns");
        expect(k > 0, "k must be positive");
        const size_t n = rows ? rows->shape(0) : left.shape(0);
        if (rows) expect_places(*rows, int64_t(left.shape(0)), "rows must be rows of left");
        auto scores = make<T>({n, size_t(k)});
        auto indices = make<int32_t>({n, size_t(k)});
        TopK<T> t;
        t.left = left.data(), t.right = right.data(), t.rows = rows ? rows->data() : nullptr;
        t.n_right = int64_t(right.shape(0)), t.d = d, t.k = k;
        t.scores = scores.data(), t.indices = indices.data();
        if (seen_indptr && seen_indices) {
          expect_offsets(*seen_indptr, int64_t(n), int64_t(seen_indices->shape(0)),
                         "seen must have one row for each answered row");
          expect_places(*seen_indices, t.n_right, "seen must be rows of right");
          t.seen_indptr = seen_indptr->data(), t.seen_indices = seen_indices->data();
        }
        {
          nb::gil_scoped_release released;
          best_rows(t, int64_t(n), active_bytes(), n_threads);
        }
        return std::tuple(indices, scores);
      },
      "left"_a.noconvert(), "right"_a.noconvert(), "k"_a, "rows"_a.noconvert() = nb::none(),
      "seen_indptr"_a.noconvert() = nb::none(), "seen_indices"_a.noconvert() = nb::none(), nb::kw_only(), "n_threads"_a,
      "Indices and scores of the best k rows of `right` for rows of `left`. Sorted `seen` indices are left out.\n\n"
      "Short lists end in -1 and NaN.");

  m.def(
      "pair_scores",
      [](In<T> left, In<T> right, In<int64_t> rows, In<int64_t> columns, int n_threads) {
        const int d = columns_of(left, "left must be two-dimensional");
        expect(columns_of(right, "right must be two-dimensional") == d && rows.shape(0) == columns.shape(0),
               "left and right must have the same number of columns, rows and columns the same length");
        const int64_t n = int64_t(rows.shape(0)), share = 65536;
        expect_places(rows, int64_t(left.shape(0)), "rows must be rows of left");
        expect_places(columns, int64_t(right.shape(0)), "columns must be rows of right");
        auto out = make<T>({size_t(n)});
        {
          nb::gil_scoped_release released;
          parallel(n_threads, (n + share - 1) / share, [&](int, int64_t task) {
            const int64_t first = task * share;
            kernels<T>().pairs(left.data(), right.data(), d, rows.data() + first, columns.data() + first,
                               std::min(share, n - first), out.data() + first);
          });
        }
        return out;
      },
      "left"_a.noconvert(), "right"_a.noconvert(), "rows"_a.noconvert(), "columns"_a.noconvert(), "n_threads"_a,
      "left[rows[p]] . right[columns[p]] for every p.");
}

template <class T>
Compressed<T> compressed(const In<int64_t>& indptr, const In<int32_t>& indices, const In<T>* values, int64_t n_columns,
                         const char* what) {
  const int64_t cells = int64_t(indices.shape(0));
  expect_offsets(indptr, int64_t(indptr.shape(0)) - 1, cells, what);
  expect_places(indices, n_columns, what);
  expect(!values || (values->ndim() == 1 && int64_t(values->shape(0)) == cells), what);
  return {indptr.data(), indices.data(), values ? values->data() : nullptr};
}

template <class T>
void bind_product(nb::module_& m) {
  using Parts = std::tuple<In<int64_t>, In<int32_t>, In<T>>;
  using Pattern = std::tuple<In<int64_t>, In<int32_t>>;
  m.def(
      "best_of_product",
      [](const Parts& left, const Parts& right, In<int32_t> order, int64_t n_columns, int k,
         std::optional<Pattern> seen, bool positive, int n_threads) {
        expect(k > 0, "k must be positive");
        BestOfProduct<T> p;
        p.n_rows = int64_t(std::get<0>(left).shape(0)) - 1, p.n_columns = n_columns;
        const int64_t inner = int64_t(std::get<0>(right).shape(0)) - 1;
        p.left = compressed(std::get<0>(left), std::get<1>(left), &std::get<2>(left), inner, "left is no CSR matrix");
        p.right = compressed(std::get<0>(right), std::get<1>(right), &std::get<2>(right), n_columns,
                             "right is no CSR matrix");
        if (seen) {
          expect(int64_t(std::get<0>(*seen).shape(0)) == p.n_rows + 1, "seen must have one row for each row of left");
          const auto s = compressed<T>(std::get<0>(*seen), std::get<1>(*seen), nullptr, n_columns, "seen is no CSR");
          p.seen_indptr = s.indptr, p.seen_indices = s.indices;
        }
        p.n_order = int64_t(order.shape(0)), p.order = order.data(), p.k = k, p.positive = positive;
        expect_places(order, n_columns, "order must be columns of right");
        auto indices = make<int32_t>({size_t(p.n_rows), size_t(k)});
        auto scores = make<T>({size_t(p.n_rows), size_t(k)});
        p.indices = indices.data(), p.scores = scores.data();
        {
          nb::gil_scoped_release released;
          best_of_product(p, n_threads);
        }
        return std::tuple(indices, scores);
      },
      "left"_a.noconvert(), "right"_a.noconvert(), "order"_a.noconvert(), "n_columns"_a, "k"_a,
      "seen"_a.noconvert() = nb::none(), nb::kw_only(), "positive"_a = false, "n_threads"_a,
      "Indices and scores of the best k columns of each row of left @ right, both (indptr, indices, values).\n\n"
      "Only columns in `order` are chosen, of equal scores the first there; cells of `seen` are left out. `positive`\n"
      "keeps scores above 0 alone. Short lists end in -1 and NaN. The product is never held as a whole.");
}

template <class T>
void bind_regression(nb::module_& m) {
  m.def(
      "regress",
      [](In<int64_t> indptr, In<int32_t> indices, In<T> values, In<T> rows, In<T> lam, In<T> diagonal, double eta,
         Array<T> weights, Array<T> fitted, Array<T> step, Array<T> moved, double tolerance, int max_steps,
         int n_threads) {
        Regression<T> g;
        g.f = columns_of(rows, "rows must be two-dimensional");
        expect(columns_of(weights, "weights must be two-dimensional") == g.f &&
                   columns_of(fitted, "fitted must be two-dimensional") == g.f && fitted.shape(0) == rows.shape(0),
               "weights must have the columns of rows, fitted its shape");
        expect(step.shape(0) == weights.shape(0) && step.shape(1) == weights.shape(1) &&
                   moved.shape(0) == fitted.shape(0) && moved.shape(1) == fitted.shape(1),
               "step must have the shape of weights, moved that of fitted");
        g.n = int64_t(rows.shape(0)), g.p = int64_t(weights.shape(0));
        const auto F =
            compressed(indptr, indices, &values, g.p, "features are no CSR matrix with a row for each weight");
        expect(int64_t(indptr.shape(0)) == g.n + 1 && int64_t(lam.shape(0)) == g.n && int64_t(diagonal.shape(0)) == g.p,
               "features, rows and lam must be of as many rows, diagonal and weights of as many columns");
        g.indptr = F.indptr, g.indices = F.indices, g.values = F.values, g.rows = rows.data(), g.lam = lam.data();
        g.diagonal = diagonal.data(), g.weights = weights.data(), g.fitted = fitted.data(), g.eta = T(eta);
        g.step = step.data(), g.moved = moved.data(), g.tolerance = tolerance, g.max_steps = max_steps;
        const int64_t strips = (g.f + strip_columns - 1) / strip_columns;
        std::vector<int> steps(strips);
        {
          nb::gil_scoped_release released;
          parallel(n_threads, strips,
                   [&](int, int64_t task) { steps[task] = kernels<T>().regress(g, int(task) * strip_columns); });
        }
        return strips ? *std::max_element(steps.begin(), steps.end()) : 0;
      },
      "indptr"_a.noconvert(), "indices"_a.noconvert(), "values"_a.noconvert(), "rows"_a.noconvert(),
      "lam"_a.noconvert(), "diagonal"_a.noconvert(), "eta"_a, "weights"_a.noconvert(), "fitted"_a.noconvert(),
      "step"_a.noconvert(), "moved"_a.noconvert(), "tolerance"_a, "max_steps"_a, "n_threads"_a,
      "Weights W, in place, that lower sum_i lam_i |rows_i - W'f_i|^2 + eta |W|^2, by conjugate gradients.\n\n"
      "diagonal : of F'DF + eta I. fitted : F W, kept up to date. step, moved : what moved them last, zeros at first;\n"
      "a step is the best along the gradient and that. One that gains no more than `tolerance` of sum lam |rows|^2 is\n"
      "the last. Returns the largest number of steps that a strip of columns took.");
}

using CellValues = std::variant<In<float>, In<double>>;
using Grouped = std::tuple<Array<int64_t>, Array<int32_t>, std::vector<std::variant<Array<float>, Array<double>>>>;

// The groups of cells by their keys. `index(k)` is what becomes of cell k; its values move along.
template <class Index>
Grouped group(const In<int32_t>& keys, int64_t n_groups, const std::vector<CellValues>& values, Index index) {
  expect(n_groups >= 0, "the number of groups must not be negative");
  const int64_t n = int64_t(keys.shape(0));
  auto indptr = make<int64_t>({size_t(n_groups) + 1});
  auto indices = make<int32_t>({size_t(n)});
  count_groups(keys.data(), n, n_groups, indptr.data());
  const auto place = [&](auto* out, auto value) {
    place_cells(keys.data(), n, n_groups, indptr.data(), [&](int64_t k, int64_t to) { out[to] = value(k); });
  };
  place(indices.data(), index);
  Grouped grouped(indptr, indices, {});
  for (const CellValues& each : values)
    std::visit(
        [&]<class T>(const In<T>& in) {
          expect(in.ndim() == 1 && int64_t(in.shape(0)) == n, "values must have one entry for each cell");
          auto out = make<T>({size_t(n)});
          place(out.data(), [&](int64_t k) { return in.data()[k]; });
          std::get<2>(grouped).push_back(out);
        },
        each);
  return grouped;
}

void bind_cells(nb::module_& m) {
  m.def(
      "group_cells",
      [](In<int32_t> keys, In<int32_t> indices, int64_t n_groups, std::vector<CellValues> values) {
        expect(indices.shape(0) == keys.shape(0), "keys and indices must have the same length");
        return group(keys, n_groups, values, [&](int64_t k) { return indices.data()[k]; });
      },
      "keys"_a.noconvert(), "indices"_a.noconvert(), "n_groups"_a, "values"_a.noconvert(),
      "Cells (keys[k], indices[k]) grouped by key in linear time, order kept: (indptr, indices, values).");
  m.def(
      "transpose",
      [](In<int64_t> indptr, In<int32_t> indices, int64_t n_columns, std::vector<CellValues> values) {
        expect_offsets(indptr, int64_t(indptr.shape(0)) - 1, int64_t(indices.shape(0)),
                       "indptr does not match indices");
        return group(indices, n_columns, values, [&, row = int64_t(0)](int64_t k) mutable {
          while (k >= indptr.data()[row + 1]) ++row;
          return int32_t(row);
        });
      },
      "indptr"_a.noconvert(), "indices"_a.noconvert(), "n_columns"_a, "values"_a.noconvert(),
      "The other orientation of CSR cells in linear time; indices come out sorted: (indptr, indices, values).");
}

template <class Enum>
void bind_enum(nb::module_& m, const char* name, const char* what,
               std::initializer_list<std::pair<const char*, Enum>> values) {
  nb::enum_<Enum> bound(m, name, what);
  for (const auto& [key, value] : values) bound.value(key, value);
}

void bind_enums(nb::module_& m) {
  bind_enum<Method>(m, "Method", "How a row is finished; `Solver` says what each does.",
                    {{"exact", Method::exact},
                     {"cholesky", Method::cholesky},
                     {"dual", Method::dual},
                     {"cg", Method::cg},
                     {"subspace", Method::subspace},
                     {"draw", Method::draw},
                     {"auto", Method::cheapest}});
  bind_enum<LossKind>(m, "LossKind", "What the core knows of a loss.",
                      {{"squared", LossKind::squared},
                       {"plq", LossKind::plq},
                       {"logistic", LossKind::logistic},
                       {"bernoulli", LossKind::bernoulli},
                       {"poisson", LossKind::poisson},
                       {"ordinal", LossKind::ordinal}});
  bind_enum<LossForm>(m, "LossForm", "What a piecewise loss is a function of.",
                      {{"residual", LossForm::residual}, {"margin", LossForm::margin}});
}

}  // namespace

NB_MODULE(_core, m) {
  active = available().front();
  bind_enums(m);
  bind_half_step<float>(m, "HalfStep32");
  bind_half_step<double>(m, "HalfStep64");
  bind_number<float>(m);
  bind_number<double>(m);
  bind_product<float>(m);
  bind_product<double>(m);
  bind_regression<float>(m);
  bind_regression<double>(m);
  bind_cells(m);
  bind_drawn<float>(m);
  bind_drawn<double>(m);
  m.def(
      "philox",
      [](uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
        uint32_t words[4][8] = {{c0}, {c1}, {c2}, {c3}};
        active->philox(key, words);
        return std::tuple(words[0][0], words[1][0], words[2][0], words[3][0]);
      },
      "key"_a, "c0"_a, "c1"_a, "c2"_a, "c3"_a, "The four words of a counter under a key; for tests.");
  m.def("instruction_set", [] { return std::string(active->name); }, "The path in use.");
  m.def(
      "instruction_sets",
      [] {
        std::vector<std::string> names;
        for (auto* set : available()) names.push_back(set->name);
        return names;
      },
      "The paths this CPU can run, best first.");
  m.def(
      "use_instruction_set",
      [](const std::string& name) {
        for (auto* set : available())
          if (name == set->name) {
            active = set;
            return;
          }
        throw nb::value_error("this CPU or build has no such instruction set");
      },
      "name"_a, "Take another path; for tests and benchmarks.");
  m.attr("long_row") = long_row;
  m.attr("chunk_cells") = chunk_cells;
}

}  // namespace halfstep
