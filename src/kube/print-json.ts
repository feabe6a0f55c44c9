/** The value as JSON; a value nested thousands of levels deep, which no API server sends, has no text but `…`. */
export function printJson(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return TOO_DEEP;
    throw error;
  }
}

const TOO_DEEP = '…';
