// Keeps what is shown the news: by the event stream, and by asking where there is none.

const POLL_MS = 5000, RETRY_MS = 30000;
const QUIET_MS = 12000; // the gateway says something every 5 s
const LOOK_MS = 1000;
const KINDS = ["reset", "levels", "incidents", "jobs", "tick"];

export class Live {
  // `load`: a promise to read everything; `take`: an event of the stream, by its name;
  // `manner`: how the page learns what is new ("live", "asking", "silent"), and why.
  constructor({ load, take, manner }) {
    Object.assign(this, { load, take, manner });
    this.waiting = []; // events that came while everything was read
    this.loading = null;
    this.layout = null;
  }

  start() {
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#rest() : this.#begin()));
    this.#begin();
  }

  // A page that nobody sees costs nothing.
  #rest() {
    clearInterval(this.timer);
    this.stream?.close();
    this.stream = this.timer = null;
  }

  #begin() {
    this.#rest();
    this.heard = this.asked = performance.now();
    this.timer = setInterval(() => this.#look(), LOOK_MS);
    this.#listen();
    this.#ask();
  }

  #listen() {
    this.tried = performance.now();
    const stream = this.stream = new EventSource("api/v1/stream");
    stream.addEventListener("hello", ({ data }) => {
      const hello = JSON.parse(data);
      this.#hear();
      this.take("tick", hello);
      if (this.layout !== null && this.layout !== hello.layout) this.#ask();
    });
    for (const kind of KINDS) {
      stream.addEventListener(kind, ({ data }) => {
        const event = JSON.parse(data);
        this.#hear();
        if (kind === "reset" || ("layout" in event && event.layout !== this.layout)) this.#ask();
        else if (this.loading) this.waiting.push([kind, event]);
        else this.take(kind, event);
      });
    }
  }

  #hear() {
    this.heard = performance.now();
    this.streams = true;
    if (this.layout !== null) this.manner("live", "");
  }

  // An answer of the stream ends on purpose, and the browser asks for the next one: only silence is a fault.
  #look() {
    const now = performance.now(), gone = this.stream.readyState === EventSource.CLOSED;
    if (gone && now - this.tried > RETRY_MS) this.#listen();
    if (gone || now - this.heard > QUIET_MS) this.streams = false;
    if (!this.streams && now - this.asked > POLL_MS) this.#ask();
  }

  // What came before the answer that is awaited may be older than it: then that is asked for once more.
  async #ask() {
    if (this.loading) return;
    this.asked = performance.now();
    this.loading = this.load();
    try {
      const { layout, time } = await this.loading;
      this.layout = layout;
      for (const [kind, event] of this.waiting) {
        if (event.time >= time && (event.layout ?? layout) === layout) this.take(kind, event);
      }
      this.manner(this.streams ? "live" : "asking", "");
    } catch (error) {
      this.manner("silent", error.message);
    } finally {
      this.loading = null;
      this.waiting = [];
    }
  }
}
