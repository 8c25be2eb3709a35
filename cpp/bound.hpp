// A half-step as Python fills it, once, and then uses it: solve, evaluate, quadratics, finish. row.hpp says what
// everything means. Two classes, HalfStep32 and HalfStep64, because then every array has one precise type, in C++ and
// in the stub, and a mixed-up precision is refused where it is handed over; `half_step(own, other)` picks the class.
#pragma once
#include <vector>

#include "arrays.hpp"
#include "driver.hpp"

namespace halfstep {

using Report = nb::typed<nb::dict, nb::str, double>;

inline Report report(const Sums& sums) {
  nb::dict out;
  out["data"] = sums.data, out["squares"] = sums.squares, out["scores"] = sums.scores;
  out["shaken"] = sums.shaken;
  out["change"] = sums.change, out["size"] = sums.size, out["gap"] = sums.gap, out["steps"] = sums.steps;
  out["coarse"] = sums.coarse;
  out["failed"] = sums.failed, out["stalled"] = sums.stalled, out["repaired"] = sums.repaired;
  return Report(out);
}

template <class T>
class Bound {
 public:
  using Values = std::variant<In<T>, double>;  // one for each cell, or row, or one number for all
  using TableValues = std::variant<Strided<T>, double>;

  Bound(const Array<T>& own, const In<T>& other) {
    h.d = columns_of(own, "own must be two-dimensional");
    expect(columns_of(other, "other must be two-dimensional") == h.d,
           "own and other must have the same number of columns");
    expect(h.d > 0, "own and other must have columns");
    h.n_own = int64_t(own.shape(0)), h.n_other = int64_t(other.shape(0)), h.free_stop = h.d;
    h.own = hold(own), h.other = hold(other);
  }

  void cells(const In<int64_t>& indptr, const In<int32_t>& indices, const Values& targets, const Values& weights,
             const MaybeIn<T>& offsets) {
    expect(!has_cells, "the cells were given already");
    const int64_t n = int64_t(indices.shape(0));
    expect_offsets(indptr, h.n_own, n, "indptr must hold rising offsets of the rows of own into indices");
    expect_places(indices, h.n_other, "indices must be rows of other");
    h.targets = hold(targets, n, h.target, "targets must have one value for each cell");
    h.weights = hold(weights, n, h.weight, "weights must have one value for each cell");
    h.offsets = vector_of(offsets, n, "offsets must have one value for each cell");
    if (offsets) hold(*offsets);
    h.indptr = hold(indptr), h.indices = hold(indices), n_cells = n, has_cells = true;
  }

  void row_weights(const MaybeIn<T>& own, const MaybeIn<T>& other) {
    h.own_weights = vector_of(own, h.n_own, "own weights must have one value for each row of own");
    h.other_weights = vector_of(other, h.n_other, "other weights must have one value for each row of other");
    if (own) hold(*own);
    if (other) hold(*other);
  }

  // Targets, and weights if they are an array, are (rows of own, rows of other), in the same order in memory.
  void table(const Strided<T>& targets, const TableValues& weights) {
    expect(!has_cells, "the cells were given already");
    const Strided<T>* weighed = std::get_if<Strided<T>>(&weights);
    for (const Strided<T>* values : {&targets, weighed}) {
      if (!values) continue;
      expect(values->ndim() == 2 && int64_t(values->shape(0)) == h.n_own && int64_t(values->shape(1)) == h.n_other,
             "a table must have a row for each row of own and a column for each row of other");
      expect((h.n_own == 1 || values->stride(0) == targets.stride(0)) &&
                 (h.n_other == 1 || values->stride(1) == targets.stride(1)),
             "weights of a table must be in the order of its targets");
    }
    // Along an axis of length 1 every step is as good as 1.
    h.row_step = h.n_own == 1 ? 1 : targets.stride(0);
    h.cell_step = h.n_other == 1 ? 1 : targets.stride(1);
    expect(h.row_step == 1 || h.cell_step == 1, "a table must be contiguous along its rows or its columns");
    h.targets = hold(targets), h.weights = weighed ? hold(*weighed) : nullptr;
    if (!weighed) h.weight = T(std::get<double>(weights));
    has_cells = true;
  }

  void loss(LossKind kind, LossForm form) {
    expect(kind != LossKind::plq, "a piecewise loss comes with its pieces");
    expect(kind != LossKind::ordinal, "an ordinal loss comes with its edges");
    h.loss = Loss{kind, form};
  }
  void pieces(LossForm form, const In<double>& breaks, const In<double>& coefficients) {
    const size_t n = breaks.shape(0);
    expect(breaks.ndim() == 1 && n <= size_t(max_breaks), "loss: at most 15 breaks");
    expect(coefficients.ndim() == 2 && coefficients.shape(0) == n + 1 && coefficients.shape(1) == 3,
           "loss: coefficients must be (breaks + 1, 3)");
    h.loss = Loss{LossKind::plq, form, int(n)};
    std::copy(breaks.data(), breaks.data() + n, h.loss.breaks);
    for (size_t k = 0; k <= n; ++k) {
      const double* piece = coefficients.data() + 3 * k;
      h.loss.a[k] = piece[0], h.loss.b[k] = piece[1], h.loss.c[k] = piece[2];
    }
  }

  // Targets are the numbers of levels, which is looked at here, so cells come first.
  void ordinal(const In<double>& edges) {
    const size_t n = edges.shape(0);
    expect(edges.ndim() == 1 && n >= 3, "loss: an ordinal loss has at least two levels");
    const double* edge = edges.data();
    expect(edge[0] == -INFINITY && edge[n - 1] == INFINITY, "loss: the outer edges must be infinite");
    for (size_t k = 1; k < n; ++k) expect(edge[k] > edge[k - 1], "loss: edges must increase");
    expect(has_cells && h.indptr, "an ordinal loss needs cells, which come first");
    const auto is_level = [&](T t) { return t >= 0 && t < T(n - 1) && t == T(int(t)); };
    for (int64_t k = 0; h.targets && k < n_cells; ++k) expect(is_level(h.targets[k]), "targets must be levels");
    expect(h.targets || is_level(h.target), "targets must be levels");
    h.loss = Loss{LossKind::ordinal, LossForm::residual};
    h.loss.levels = int(n) - 1, h.loss.edges = hold(edges);
  }

  void columns(int start, int stop) {
    expect(!h.mu && !h.spectrum && !h.nonnegative, "columns come before what is said about them");
    expect(0 <= start && start < stop && stop <= h.d, "free must be a range of columns");
    h.free_start = start, h.free_stop = stop;
  }
  void nonnegative(int start, int stop) {
    expect(h.free_start <= start && start <= stop && stop <= h.free_stop,
           "nonnegative must be a range within the free columns");
    h.nonnegative = stop > start;
    h.nonnegative_start = start - h.free_start, h.nonnegative_stop = stop - h.free_start;
  }
  void penalty(const Values& lam) { h.lam = hold(lam, h.n_own, h.lam_all, "lam must have one value for each row"); }
  void prior(const In<T>& mu) {
    expect(columns_of(mu, "mu must be two-dimensional") == h.free() &&
               (int64_t(mu.shape(0)) == h.n_own || mu.shape(0) == 1),
           "mu must have one row, or one for each row of own, over the free columns");
    h.mu = hold(mu), h.mu_stride = mu.shape(0) == 1 ? 0 : h.free();
  }
  void background(double w0, const MaybeIn<T>& gram, const MaybeIn<T>& spectrum) {
    expect(w0 >= 0, "w0 must not be negative");
    expect(!gram || (columns_of(*gram, "gram must be d x d") == h.d && int64_t(gram->shape(0)) == h.d),
           "gram must be d x d");
    expect(!spectrum || gram, "spectrum goes with gram");
    h.spectrum = vector_of(spectrum, h.free(), "spectrum must have one value for each free column");
    if (spectrum) hold(*spectrum);
    h.w0 = T(w0), h.gram = gram ? hold(*gram) : nullptr;
  }
  void background_factors(const MaybeIn<T>& own, const MaybeIn<T>& other) {
    h.own_background = vector_of(own, h.n_own, "own factors must have one value for each row of own");
    h.other_background = vector_of(other, h.n_other, "other factors must have one value for each row of other");
    if (own) hold(*own);
    if (other) hold(*other);
  }
  void duals(const Array<T>& values) {
    expect(h.indptr && values.ndim() == 1 && int64_t(values.shape(0)) == n_cells,
           "duals must have one value for each cell");
    h.duals = hold(values);
  }
  void label(const In<T>& vector, const In<T>& targets, const In<T>& weights) {
    vector_of<T>(vector, h.d, "the label's vector must have one value for each column");
    vector_of<T>(targets, h.n_own, "the label's targets must have one value for each row");
    vector_of<T>(weights, h.n_own, "the label's weights must have one value for each row");
    h.label_vector = hold(vector), h.label_targets = hold(targets), h.label_weights = hold(weights);
  }
  void method(Method method, double tolerance, int max_steps, int block) {
    expect(block > 0, "block must be positive");
    h.method = method, h.tolerance = tolerance, h.max_steps = max_steps, h.block = block;
  }

  void noise(uint64_t seed, uint32_t sweep, uint32_t side, int64_t first_row) {
    expect(side < 2, "side must be 0 or 1");
    expect(first_row >= 0, "first_row must not be negative");
    h.noise = Noise{seed, sweep, side, first_row}, has_noise = true;
  }

  Report solve(bool evaluate, int n_threads) const {
    expect_cells();
    expect_base();
    expect(!h.is_table() || (h.w0 == 0 && !h.nonnegative && h.method <= Method::cholesky),
           "a table needs exact rows without background or constraints");
    return report(released([&] { return half_step(kernels<T>(), h, evaluate, n_threads); }));
  }
  Report evaluate(int n_threads) const {
    expect_cells();
    return report(released([&] { return halfstep::evaluate(kernels<T>(), h, n_threads); }));
  }
  Array<double> quadratics(int n_threads) const {
    expect_cells();
    expect_quadratic();
    expect(!h.is_table() || h.w0 == 0, "a table has no background");
    auto out = make<double>({size_t(h.n_own), size_t(h.free()) + 1, size_t(h.free())});
    released([&] { halfstep::quadratics(kernels<T>(), h, out.data(), n_threads); });
    return out;
  }
  Report finish(const In<double>& quadratics, int n_threads) const {
    expect_quadratic();
    expect_base();
    expect(quadratics.ndim() == 3 && int64_t(quadratics.shape(0)) == h.n_own &&
               int64_t(quadratics.shape(1)) == h.free() + 1 && int64_t(quadratics.shape(2)) == h.free(),
           "quadratics must be (rows of own, f + 1, f) for f free columns");
    return report(released([&] { return halfstep::finish(kernels<T>(), h, quadratics.data(), n_threads); }));
  }

 private:
  // Keeps the array as long as this object; nothing is ever let go, so a call in another thread loses nothing.
  template <class Kept>
  auto hold(const Kept& array) -> decltype(array.data()) {
    kept.emplace_back(array);
    return array.data();
  }
  const T* hold(const Values& values, int64_t length, T& all, const char* what) {
    if (const double* number = std::get_if<double>(&values)) {
      all = T(*number);
      return nullptr;
    }
    const In<T>& array = std::get<In<T>>(values);
    expect(array.ndim() == 1 && int64_t(array.shape(0)) == length, what);
    return hold(array);
  }

  void expect_cells() const {
    expect(has_cells, "there are no cells; call cells or table first");
    expect(!h.is_table() || h.loss.kind == LossKind::squared, "a table needs the squared loss");
    expect(!h.is_table() || (!h.own_weights && !h.other_weights), "a table has no weights of rows");
  }
  void expect_quadratic() const { expect(h.is_quadratic(), "only the squared loss without bounds is a quadratic"); }
  void expect_base() const {
    expect(h.w0 == 0 || h.gram, "gram must be d x d where w0 > 0");
    expect(!h.label_vector || h.is_quadratic(), "a label cell needs the squared loss without constraints");
    expect(h.method != Method::draw || (h.is_quadratic() && !h.label_vector),
           "only rows of the squared loss without bounds and labels are drawn");
    expect(h.method != Method::draw || has_noise, "rows that are drawn need noise; call noise first");
  }

  template <class Work>
  static auto released(Work work) {
    nb::gil_scoped_release released;
    return work();
  }

  HalfStep<T> h;
  std::vector<nb::ndarray<>> kept;
  int64_t n_cells = 0;
  bool has_cells = false, has_noise = false;
};

template <class T>
void bind_half_step(nb::module_& m, const char* name) {
  using namespace nb::literals;
  using B = Bound<T>;
  nb::class_<B>(m, name, "One side to solve against another. Filled once, then used.")
      .def("cells", &B::cells, "indptr"_a.noconvert(), "indices"_a.noconvert(), "targets"_a.noconvert(),
           "weights"_a.noconvert(), "offsets"_a.noconvert() = nb::none(), "The cells of every row, listed.")
      .def("table", &B::table, "targets"_a.noconvert(), "weights"_a.noconvert(),
           "A cell for every pair of rows; a target that is NaN is none.")
      .def("row_weights", &B::row_weights, "own"_a.noconvert() = nb::none(), "other"_a.noconvert() = nb::none(),
           "Factors of the weights of cells, by their row of `own` and by their row of `other`.")
      .def("loss", &B::loss, "kind"_a.noconvert(), "form"_a.noconvert(),
           "A loss that the core has built in; squared unless told.")
      .def("pieces", &B::pieces, "form"_a.noconvert(), "breaks"_a.noconvert(), "coefficients"_a.noconvert(),
           "A loss that is quadratic between breaks.")
      .def("ordinal", &B::ordinal, "edges"_a.noconvert(),
           "Levels 0, 1, ... of a latent score with logistic noise, each between two edges; the outer ones infinite.")
      .def("columns", &B::columns, "start"_a, "stop"_a, "The range of columns that is solved; the others are data.")
      .def("nonnegative", &B::nonnegative, "start"_a, "stop"_a, "The range of columns, of the whole row, kept >= 0.")
      .def("penalty", &B::penalty, "lam"_a.noconvert(), "How strongly rows are held.")
      .def("prior", &B::prior, "mu"_a.noconvert(), "Where rows are held, over the free columns; zero unless told.")
      .def("background", &B::background, "w0"_a, "gram"_a.noconvert() = nb::none(),
           "spectrum"_a.noconvert() = nb::none(), "Weight of unobserved cells; `quadratics` needs no gram.")
      .def("background_factors", &B::background_factors, "own"_a.noconvert() = nb::none(),
           "other"_a.noconvert() = nb::none(),
           "Factors of the weight of unobserved cells, by their row of `own` and by their row of `other`.")
      .def("duals", &B::duals, "values"_a.noconvert(), "Dual variables, kept between sweeps.")
      .def("label", &B::label, "vector"_a.noconvert(), "targets"_a.noconvert(), "weights"_a.noconvert(),
           "One logistic cell of each row beside its squared ones.")
      .def("method", &B::method, "method"_a.noconvert(), "tolerance"_a, "max_steps"_a, "block"_a,
           "How rows are finished.")
      .def("noise", &B::noise, "seed"_a, "sweep"_a, "side"_a, "first_row"_a = 0,
           "Which normals the rows get where they are drawn; row i of `own` is number first_row + i.")
      .def("solve", &B::solve, "evaluate"_a, "n_threads"_a,
           "Solve every row of `own` in place; returns the sums over rows.")
      .def("evaluate", &B::evaluate, "n_threads"_a, "What the rows of `own` cost on their cells; solves nothing.")
      .def("quadratics", &B::quadratics, "n_threads"_a,
           "What the cells of each row add to its quadratic, (rows, f + 1, f): lower triangle, then linear terms.")
      .def("finish", &B::finish, "quadratics"_a.noconvert(), "n_threads"_a,
           "Solve every row of `own` in place from such quadratics, added up; the cells are not looked at.");
  m.def(
      "half_step", [](Array<T> own, In<T> other) { return new B(own, other); }, "own"_a.noconvert(),
      "other"_a.noconvert(), "A half-step in the precision of its two sides.");
}

}  // namespace halfstep
