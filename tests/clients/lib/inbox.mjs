// What a server told a client without being asked, and waiting for it.

/** Longest wait for a message; only a test that fails waits that long. */
const DEADLINE_MS = 30_000;

export class Inbox {
  #messages = [];
  #waiting = new Set();

  /** Takes a notification in. */
  put(message) {
    this.#messages.push(message);
    for (const look of this.#waiting) look();
  }

  /** All parameters of one method that have come so far. */
  all(method) {
    const of = this.#messages.filter((message) => message.method === method);
    return of.map(({ params = {} }) => params);
  }

  /** The parameters of the first message of a method for which `fits` holds, also of an earlier one. */
  next(method, fits = () => true) {
    return new Promise((resolve, reject) => {
      const done = (settle, value) => {
        clearTimeout(late);
        this.#waiting.delete(look);
        settle(value);
      };
      const look = () => {
        const found = this.all(method).find(fits);
        if (found !== undefined) done(resolve, found);
      };
      const late = setTimeout(() => {
        const seen = JSON.stringify(this.#messages);
        done(reject, new Error(`no fitting \`${method}\` came, only ${seen}`));
      }, DEADLINE_MS);
      this.#waiting.add(look);
      look();
    });
  }
}
