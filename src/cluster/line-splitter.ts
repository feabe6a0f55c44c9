const NEWLINE = 0x0a;

/** Takes bytes as they come and gives the lines that are complete; a character may come in pieces, a line in many. */
export interface LineSplitter {
  /** @throws {Error} once a line has more bytes than allowed */
  push(chunk: Buffer): readonly string[];
}

export function createLineSplitter(maxBytes: number): LineSplitter {
  let parts: Buffer[] = [];
  let length = 0;
  const add = (part: Buffer): void => {
    length += part.length;
    if (length > maxBytes) throw new Error(`a line is longer than ${maxBytes} bytes`);
    parts.push(part);
  };
  return {
    push(chunk) {
      const lines: string[] = [];
      let start = 0;
      for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
        add(chunk.subarray(start, end));
        lines.push((parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)).toString('utf8'));
        parts = [];
        length = 0;
        start = end + 1;
      }
      if (start < chunk.length) add(chunk.subarray(start));
      return lines;
    },
  };
}
