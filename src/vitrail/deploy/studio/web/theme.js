// Light or dark: what the system says, until the person says otherwise.

import { find } from "./dom.js";

const KEY = "vitrail-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

const stored = () => {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // a browser may forbid it: then the choice lasts as long as the page
  }
};

const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

export function makeTheme() {
  if (["light", "dark"].includes(stored())) document.documentElement.dataset.theme = stored();
  const button = find("#theme");
  const label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use the ${isDark() ? "light" : "dark"} theme`);
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem(KEY, document.documentElement.dataset.theme);
    } catch {
      // see above
    }
    label();
  });
  system.addEventListener("change", label);
  label();
}
