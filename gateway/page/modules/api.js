// Questions to the gateway, below the address of the page.

const PATIENCE_MS = 30000; // the first answer for 12,500 nodes takes a busy gateway seconds

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
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
