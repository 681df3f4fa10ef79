// The theme puts the copy button of each block of code into a <nav>, which makes every block a landmark
// of the page for screen readers.
new MutationObserver(() => {
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) nav.role = "none";
}).observe(document.documentElement, { childList: true, subtree: true });
