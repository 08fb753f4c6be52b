// Times in the reader's own zone: `clock` is a time of day (with its date if it is another day), `until` counts down,
// `full` says all. And the tab of the page is marked as the current one.
const forms = {
  clock: (at) =>
    at.toDateString() === new Date().toDateString()
      ? at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" })
      : at.toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }),
  full: (at) => at.toLocaleString([], { dateStyle: "medium", timeStyle: "medium" }),
  until: (at) => {
    const seconds = Math.ceil((at - Date.now()) / 1000);
    if (seconds <= 0) return "now";
    if (seconds < 90) return `in ${seconds} s`;
    const minutes = Math.round(seconds / 60);
    return minutes < 90 ? `in ${minutes} min` : `at ${forms.clock(at)}`;
  },
};

const show = () => {
  for (const time of document.querySelectorAll("time[data-form]")) {
    const text = forms[time.dataset.form](new Date(time.dateTime));
    if (time.textContent !== text) time.textContent = text;
  }
  // What is pushed is the same for all pages.
  for (const tab of document.querySelectorAll(".tabs [data-tab]")) {
    const current = tab.dataset.tab === document.body.dataset.tab ? "page" : null;
    if (tab.ariaCurrent !== current) tab.ariaCurrent = current;
  }
};

show();
setInterval(show, 1000);
new MutationObserver(show).observe(document.documentElement, {
  childList: true,
  characterData: true,
  attributeFilter: ["aria-current"],
  subtree: true,
});
