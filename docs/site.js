// The theme puts the copy button of each block of code into a <nav>, which makes every block a landmark
// of the page for screen readers. Code that is wider than its block can be scrolled by keyboard.
function mend() {
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) nav.role = "none";
  for (const code of document.querySelectorAll("pre > code:not([tabindex])"))
    if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
}
new MutationObserver(mend).observe(document.documentElement, { childList: true, subtree: true });
addEventListener("load", mend);
addEventListener("resize", mend);
