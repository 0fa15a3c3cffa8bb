// Questions to the gateway, below the address of the page.

const PATIENCE_MS = 30000; // the first answer for 12,500 nodes takes a busy gateway seconds
const MAX_LIMIT = 1000; // of a page, as the gateway has it

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

// A list with the rows of as many pages as it takes, up to so many rows: what is read of it is as old as the first.
export async function getAll(path, rows, most) {
  const answer = await get(path, { limit: MAX_LIMIT });
  for (let { next } = answer; next !== null && answer[rows].length < most;) {
    const more = await get(path, { limit: MAX_LIMIT, cursor: next });
    answer[rows].push(...more[rows]);
    next = more.next;
  }
  return answer;
}

export async function get(path, query = {}) {
  const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""));
  let answer;
  try {
    answer = await fetch(`api/v1/${path}${asked.size ? `?${asked}` : ""}`, { signal: AbortSignal.timeout(PATIENCE_MS) });
  } catch {
    throw new Refused(0, "The gateway does not answer.");
  }
  let document = null;
  try {
    document = await answer.json();
  } catch { /* said below */ }
  if (answer.ok && document !== null) return document;
  throw new Refused(answer.status, `The gateway answered ${answer.status}${document?.detail ? `: ${document.detail}` : "."}`);
}
