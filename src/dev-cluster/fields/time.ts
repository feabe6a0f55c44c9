import { quote } from '../../kube/text.ts';

/** The layouts in which Go reads times, split as its parser does. */
const LAYOUTS = {
  time: ['2006', '-', '01', '-', '02', 'T', '15', ':', '04', ':', '05', 'Z07:00'],
  'micro-time': ['2006', '-', '01', '-', '02', 'T', '15', ':', '04', ':', '05', '.000000', 'Z07:00'],
} as const;

const PATTERNS: Readonly<Record<string, RegExp>> = {
  '2006': /^\d{4}/,
  '01': /^\d{2}/,
  '02': /^\d{2}/,
  '15': /^\d{2}/,
  '04': /^\d{2}/,
  '05': /^\d{2}/,
  '.000000': /^\.\d{6}/,
  'Z07:00': /^(?:Z|[+-]\d{2}:\d{2})/,
};

const FRACTION = /^[.,]\d+/;

/**
 * A time in UTC, in whole seconds or in microseconds, or Go's complaint about the text.
 * @see https://pkg.go.dev/time#ParseError
 */
export function readTime(text: string, scalar: 'time' | 'micro-time'): { value: string } | { error: string } {
  const layout = LAYOUTS[scalar];
  const parts: Record<string, string> = {};
  let rest = text;
  for (const element of layout) {
    const part = (PATTERNS[element]?.exec(rest) ?? (rest.startsWith(element) ? [element] : null))?.[0];
    if (part === undefined) {
      return { error: `${parsing(text, layout)}: cannot parse ${quote(rest)} as ${quote(element)}` };
    }
    parts[element] = part;
    rest = rest.slice(part.length);
    // Go takes a fraction behind the seconds that its layout does not mention.
    if (element === '05' && scalar === 'time') rest = rest.replace(FRACTION, '');
  }
  if (rest !== '') return { error: `parsing time ${quote(text)}: extra text: ${quote(rest)}` };
  const range = outOfRange(parts);
  if (range !== undefined) return { error: `parsing time ${quote(text)}: ${range} out of range` };
  const seconds = new Date(text.replace(',', '.')).toISOString().slice(0, 19);
  return { value: `${seconds}${parts['.000000'] ?? ''}Z` };
}

function parsing(text: string, layout: readonly string[]): string {
  return `parsing time ${quote(text)} as ${quote(layout.join(''))}`;
}

function outOfRange(parts: Readonly<Record<string, string>>): string | undefined {
  const [year, month, day] = [Number(parts['2006']), Number(parts['01']), Number(parts['02'])];
  if (month < 1 || month > 12) return 'month';
  if (Number(parts['15']) > 23) return 'hour';
  if (Number(parts['04']) > 59) return 'minute';
  if (Number(parts['05']) > 59) return 'second';
  if (Number(parts['Z07:00']?.slice(1, 3) ?? 0) > 23) return 'time zone offset hour';
  if (Number(parts['Z07:00']?.slice(4) ?? 0) > 59) return 'time zone offset minute';
  return day < 1 || day > new Date(Date.UTC(year, month, 0)).getUTCDate() ? 'day' : undefined;
}
