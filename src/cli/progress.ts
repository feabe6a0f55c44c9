import type { Output } from './command.ts';

/** Shows how far a long work is, in one line that goes away at the end; on a terminal only. */
export interface Progress {
  show(text: string): void;
  clear(): void;
}

const CLEAR_LINE = '\r\u001b[K';

export function createProgress(output: Output): Progress {
  let isShown = false;
  const write = (text: string): void => {
    if (output.isTTY === true) output.write(`${CLEAR_LINE}${text}`);
  };
  return {
    show(text) {
      isShown = true;
      write(text);
    },
    clear() {
      if (isShown) write('');
      isShown = false;
    },
  };
}
