// Times in the reader's own zone, and a page that keeps itself up to date.
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

const wait = (millis) => {
  const seconds = Math.round(Math.abs(millis) / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
};

const show = () => {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    const away = at - Date.now();
    const text =
      time.dataset.form === "away" ? (away > 0 ? `in ${wait(away)}` : `${wait(away)} ago`) : clock.format(at);
    if (time.textContent !== text) time.textContent = text;
    time.title ||= clock.format(at);
  }
};

const refresh = async () => {
  // A hidden page, or one on which the user is about to press a button, stays as it is.
  if (document.hidden || document.querySelector("main :focus, dialog[open]")) return;
  const answer = await fetch(location.href).catch(() => null);
  document.body.toggleAttribute("data-stale", !answer?.ok);
  if (!answer?.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [old, now] = [document.querySelector("main"), fresh.querySelector("main")];
  if (!now || old.dataset.shown === now.innerHTML) return;
  const open = [...old.querySelectorAll("details[open]")].map((it) => it.id);
  old.dataset.shown = now.innerHTML;
  old.innerHTML = now.innerHTML;
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  show();
};

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});
show();
setInterval(show, 1000);
setInterval(refresh, 2000);
