// <abide-live src="/path/live?format=turbo">: keeps a page up to date over a WebSocket, with Turbo.
//
// The server says `refresh` on each new connection, so what happened before it, or while there was none, is not missed.
// A refresh waits until Turbo has loaded a page and sent a form: Turbo's own would cancel the form. It is of the page that
// this element is in: Turbo's own, told between two pages, would be of the second, and empty a form there.
// Other changes that the server says while Turbo loads a page are shown again when the page is there: its answer may be older.
// A refresh that fails leaves the page as it is and is made again on a new connection. Turbo itself would load the page anew,
// so that a server that restarts at that moment would leave an error page of the browser.
// Its `data-state` is `open` while the line works, and `waiting` while it does not.

const REFRESH = '<turbo-stream action="refresh"></turbo-stream>';

// More changes are not shown one by one: the page is refreshed.
const MANY = 500;

// Refreshes within this time are one; milliseconds.
const SOON = 150;

// The refresh that Turbo makes now, if it makes one.
const refreshing = () => {
  const visit = Turbo.navigator.currentVisit;
  return visit?.isPageRefresh ? visit : null;
};

// Whether Turbo loads a page or sends a form.
const busy = () => {
  const { currentVisit, formSubmission } = Turbo.navigator;
  return currentVisit || ["requesting", "waiting", "receiving"].includes(formSubmission?.state);
};

class AbideLive extends HTMLElement {
  #socket = null;
  #waiting = [];
  #late = [];
  #frame = 0;
  #soon = 0;
  #attempt = 0;
  #timer = 0;
  #heard = 0;

  connectedCallback() {
    document.addEventListener("turbo:load", this.#loaded);
    document.addEventListener("turbo:fetch-request-error", this.#failed);
    document.addEventListener("turbo:before-fetch-response", this.#answered);
    this.#open();
  }

  disconnectedCallback() {
    document.removeEventListener("turbo:load", this.#loaded);
    document.removeEventListener("turbo:fetch-request-error", this.#failed);
    document.removeEventListener("turbo:before-fetch-response", this.#answered);
    clearTimeout(this.#timer);
    clearTimeout(this.#soon);
    clearInterval(this.#heard);
    cancelAnimationFrame(this.#frame);
    // It is carried to the next page, and continues there: a new connection refreshes.
    this.#frame = 0;
    this.#soon = 0;
    this.#waiting = [];
    this.#late = [];
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  #open() {
    const url = new URL(this.getAttribute("src"), location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    this.#socket = socket;
    // The browser cannot tell whether the connection still works: the server answers `ping` with `pong`.
    let answered = true;
    clearInterval(this.#heard);
    this.#heard = setInterval(() => {
      if (socket.readyState !== WebSocket.OPEN) return;
      if (!answered) return this.#ended(socket);
      answered = false;
      socket.send("ping");
    }, 20_000);
    socket.onopen = () => {
      this.dataset.state = "open";
    };
    socket.onmessage = ({ data }) => {
      answered = true;
      if (data !== "pong") this.#take(data);
    };
    socket.onclose = () => this.#ended(socket);
  }

  #ended(socket) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    clearInterval(this.#heard);
    socket.close();
    this.dataset.state = "waiting";
    // The next connection refreshes.
    this.#drop(refreshing());
    // Not all pages come back at the same moment.
    const wait = Math.min(15_000, 500 * 2 ** this.#attempt) * (0.5 + Math.random());
    this.#attempt += 1;
    this.#timer = setTimeout(() => this.#open(), wait);
  }

  #take(streams) {
    if (streams === REFRESH) return this.#refreshSoon();
    const { currentVisit, formSubmission } = Turbo.navigator;
    // A form stays there until the page that it leads to loads.
    if (currentVisit || formSubmission) this.#keep(this.#late, streams);
    this.#show(streams);
  }

  #keep(list, streams) {
    list.push(streams);
    if (list.length <= MANY) return;
    list.length = 0;
    this.#refreshSoon();
  }

  #refreshSoon() {
    this.#soon ||= setTimeout(() => {
      this.#soon = 0;
      if (busy()) this.#refreshSoon();
      else Turbo.visit(document.baseURI, { action: "replace", shouldCacheSnapshot: false });
    }, SOON);
  }

  #drop(visit) {
    if (!visit) return;
    visit.cancel();
    Turbo.navigator.currentVisit = null;
  }

  #again() {
    this.#drop(refreshing());
    if (this.#socket) this.#ended(this.#socket);
  }

  #failed = event => {
    if (event.detail.request !== refreshing()?.request) return;
    event.preventDefault();
    this.#again();
  };

  #answered = event => {
    const visit = refreshing();
    if (!visit || event.target !== document.documentElement) return;
    const { statusCode, isHTML, responseHTML } = event.detail.fetchResponse;
    // What a proxy says while the server is away is not the page.
    if (statusCode >= 500 || statusCode === 429 || !isHTML) {
      event.preventDefault();
      this.#again();
    } else {
      // Turbo waits forever for an answer that breaks off.
      responseHTML.catch(() => visit === refreshing() && this.#again());
    }
  };

  #loaded = () => {
    this.#attempt = 0;
    if (this.#late.length) this.#show(this.#late.splice(0).join(""));
  };

  // What comes faster than the screen shows it is applied together.
  #show(streams) {
    this.#keep(this.#waiting, streams);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      Turbo.renderStreamMessage(this.#waiting.splice(0).join(""));
    });
  }
}

customElements.define("abide-live", AbideLive);
