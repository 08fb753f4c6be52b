"use strict";
// The header Refresh loads the page anew. This only shows when.
const seconds = Number(document.currentScript.dataset.seconds);
const bar = document.getElementById("bar");
const step = () => {
  bar.style.setProperty("--gone", Math.min(1, performance.now() / (seconds * 1000)));
  requestAnimationFrame(step);
};
requestAnimationFrame(step);
