const MAX_RUNES = 4096;
const MAX_RUNES_EACH = 256;

/** The warnings of one request. */
export interface Warnings {
  add(text: string): void;
  /** The texts to send, in order. */
  list(): readonly string[];
}

/**
 * Collects warnings as the API server sends them: each once, none that is empty or holds control characters. Once all
 * together grow too long, each is cut, and after the limit no more are added.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/endpoints/filters/warning.go
 */
export function createWarnings(): Warnings {
  const seen = new Set<string>();
  let sent: string[] = [];
  let written = 0;
  let isTruncating = false;

  const send = (text: string): void => {
    const runes = Array.from(text);
    const cut = isTruncating ? runes.slice(0, MAX_RUNES_EACH) : runes;
    if (/\p{Cc}/u.test(cut.join(''))) return;
    written += cut.length;
    sent.push(cut.join(''));
  };

  return {
    add(text) {
      if (text === '' || seen.has(text) || (isTruncating && written >= MAX_RUNES)) return;
      seen.add(text);
      if (isTruncating || written + Array.from(text).length <= MAX_RUNES) {
        send(text);
        return;
      }
      isTruncating = true;
      sent = [];
      written = 0;
      for (const one of seen) send(one);
    },
    list: () => sent,
  };
}
