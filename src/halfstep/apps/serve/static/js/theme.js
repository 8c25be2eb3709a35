// Light or dark: what the system prefers, until somebody presses the button.

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
  document.dispatchEvent(new CustomEvent("themechange"));
}

export function startTheme() {
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const system = () => (preferred.matches ? "dark" : "light");
  setTheme(localStorage.getItem("halfstep-theme") ?? system());
  preferred.addEventListener("change", () => localStorage.getItem("halfstep-theme") || setTheme(system()));
  document.getElementById("theme").addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("halfstep-theme", next);
    setTheme(next);
  });
}
