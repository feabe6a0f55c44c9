import { isIP, isIPv4, isIPv6 } from 'node:net';

/** By name: the formats that are checked. Others are not known here and take every text. */
const FORMATS: Readonly<Record<string, (text: string) => boolean>> = {
  'date-time': (text) =>
    /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/.test(text) &&
    !Number.isNaN(Date.parse(text)),
  date: (text) => /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)),
  duration: (text) => /^[+-]?(\d+(\.\d*)?(ns|us|µs|ms|s|m|h))+$/.test(text),
  ipv4: isIPv4,
  ipv6: isIPv6,
  ip: (text) => isIP(text) !== 0,
  uri: (text) => URL.canParse(text),
  uuid: (text) => /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i.test(text),
  // Nothing is no base64 there.
  byte: (text) => /^[A-Za-z0-9+/]+={0,2}$/.test(text) && text.length % 4 === 0,
};

/** The name of the format that a text does not have; `undefined` where it has, or nobody knows the format. */
export function formatError(text: string, format: string): string | undefined {
  const check = Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined;
  return check && !check(text) ? format : undefined;
}
