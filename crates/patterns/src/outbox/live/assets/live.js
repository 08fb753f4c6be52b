// <abide-live src="/path/live?format=turbo">: keeps a page up to date over a WebSocket, with Turbo.
//
// The server says `refresh` on each new connection, so what happened before it, or while there was none, is not missed.
// Its `data-state` is `open` while the line works, and `waiting` while it does not.
class AbideLive extends HTMLElement {
  #socket = null;
  #waiting = [];
  #frame = 0;
  #attempt = 0;
  #timer = 0;
  #heard = 0;

  connectedCallback() {
    this.#open();
  }

  disconnectedCallback() {
    clearTimeout(this.#timer);
    clearInterval(this.#heard);
    cancelAnimationFrame(this.#frame);
    this.#waiting = [];
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  #open() {
    const url = new URL(this.getAttribute("src"), location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    this.#socket = socket;
    // The browser cannot ask by itself whether the line still works: the server answers `ping` with `pong`.
    let answered = true;
    clearInterval(this.#heard);
    this.#heard = setInterval(() => {
      if (socket.readyState !== WebSocket.OPEN) return;
      if (!answered) return this.#ended(socket);
      answered = false;
      socket.send("ping");
    }, 20_000);
    socket.onopen = () => {
      this.#attempt = 0;
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
    // Not all pages come back at the same moment.
    const wait = Math.min(15_000, 500 * 2 ** this.#attempt) * (0.5 + Math.random());
    this.#attempt += 1;
    this.#timer = setTimeout(() => this.#open(), wait);
  }

  // What comes faster than the screen shows it is applied together; what is too much is fetched as it is then.
  #take(streams) {
    this.#waiting.push(streams);
    if (this.#waiting.length > 500) this.#waiting = ['<turbo-stream action="refresh"></turbo-stream>'];
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      Turbo.renderStreamMessage(this.#waiting.splice(0).join(""));
    });
  }
}

customElements.define("abide-live", AbideLive);
