// Keeps what is shown the news: by the event stream, and by asking where there is none.

const POLL_MS = 5000, RETRY_MS = 30000;
const RENEW_MS = 60000; // the stream sends no row again for its numbers of now, nor how many there are
const QUIET_MS = 12000; // the gateway says something every 5 s
const LOOK_MS = 1000;
const KINDS = ["reset", "levels", "incidents", "jobs", "tick"];

export class Live {
  // `load`: a promise to read everything: the layout, and the time of each answer by the kind of events that change
  // it; `take`: an event of the stream, by its name; `manner`: how the page learns what is new ("live", "asking",
  // "silent"), and why.
  constructor({ load, take, manner }) {
    Object.assign(this, { load, take, manner });
    this.waiting = []; // events that came while everything was read
    this.loading = null;
    this.layout = null;
    this.time = ""; // of the oldest answer that is shown
    this.wanted = ""; // a time for which everything has to be read, as the stream says
    this.failed = false; // whether the last answer is missing
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
    let first = true;
    stream.addEventListener("hello", ({ data }) => {
      const hello = JSON.parse(data), begins = first;
      first = false;
      this.#hear();
      this.take("tick", hello);
      // A stream begins with what comes; what was before is in answers of this time. Then it goes on where it was.
      if (begins ? this.time < hello.time : this.layout !== hello.layout) this.#want(hello.time);
    });
    for (const kind of KINDS) {
      stream.addEventListener(kind, ({ data }) => {
        const event = JSON.parse(data);
        this.#hear();
        if (kind === "reset" || ("layout" in event && event.layout !== this.layout)) this.#want(event.time);
        else if (this.loading) this.waiting.push([kind, event]);
        else this.take(kind, event);
      });
    }
  }

  #hear() {
    this.heard = performance.now();
    this.streams = true;
    if (this.layout !== null && !this.failed) this.manner("live", "");
  }

  // An answer of the stream ends on purpose, and the browser asks for the next one: only silence is a fault.
  #look() {
    const now = performance.now(), gone = this.stream.readyState === EventSource.CLOSED;
    if (gone || now - this.heard > QUIET_MS) this.streams = false;
    if ((gone || now - this.heard > RETRY_MS) && now - this.tried > RETRY_MS) { // a browser that slept may see no end
      this.stream.close();
      this.#listen();
    }
    if (now - this.asked > (this.streams && !this.failed ? RENEW_MS : POLL_MS)) this.#ask();
  }

  // Everything as it was then or later. The answers that are awaited may be older: then it is asked for once more.
  #want(time) {
    this.wanted = time;
    this.#ask();
  }

  async #ask() {
    if (this.loading) return;
    const { wanted } = this;
    this.asked = performance.now();
    this.loading = this.load();
    try {
      const { layout, times } = await this.loading;
      this.layout = layout;
      this.time = Object.values(times).reduce((one, other) => (one < other ? one : other));
      this.failed = false;
      for (const [kind, event] of this.waiting) {
        if (event.time >= (times[kind] ?? "") && (event.layout ?? layout) === layout) this.take(kind, event);
      }
      this.manner(this.streams ? "live" : "asking", "");
    } catch (error) {
      this.failed = true;
      this.manner("silent", error.message);
    } finally {
      this.loading = null;
      this.waiting = [];
    }
    if (!this.failed && this.wanted !== wanted && this.time < this.wanted) this.#ask();
  }
}
