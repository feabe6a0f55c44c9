/** What values of options may be, in words: each returns the value or throws a `UserError`. */
import { UserError } from '../config/files.ts';
import { parseDurationMs } from '../kube/units.ts';
import type { Result } from '../kube/types.ts';
import type { Parse } from './options.ts';

export function text(value: string): string {
  return value;
}

/** The name of an object. What it may be the server knows; an empty one names none. */
export function objectName(value: string): string {
  if (value === '') throw new UserError('must not be empty');
  return value;
}

/** What a parser of the policies reads. */
export function found<T>(parse: (text: string) => Result<T>): Parse<T> {
  return (value) => {
    const read = parse(value);
    if ('error' in read) throw new UserError(read.error);
    return read.value;
  };
}

/** One of several words. */
export function oneOf<T extends string>(words: readonly T[]): Parse<T> {
  return (value) => {
    const found = words.find((word) => word === value);
    if (found === undefined) throw new UserError(`must be one of ${words.join(', ')}`);
    return found;
  };
}

/** `true` and `false`, written as Go's own commands take them. */
export function boolean(value: string): boolean {
  if (/^(?:1|t|T|true|True|TRUE)$/.test(value)) return true;
  if (/^(?:0|f|F|false|False|FALSE)$/.test(value)) return false;
  throw new UserError('must be true or false');
}

/** A whole number within bounds, both included. */
export function integer(min: number, max: number): Parse<number> {
  return (value) => {
    const number = /^-?\d+$/.test(value) ? Number(value) : NaN;
    if (number >= min && number <= max) return number;
    throw new UserError(`must be a whole number from ${min} to ${max}`);
  };
}

/** A decimal number within bounds, both included. */
export function decimal(min: number, max: number): Parse<number> {
  return (value) => {
    const number = /^-?\d+(?:\.\d+)?$/.test(value) ? Number(value) : NaN;
    if (number >= min && number <= max) return number;
    throw new UserError(`must be a number from ${min} to ${max}`);
  };
}

/** A Go duration such as `5s` or `1m30s`, in milliseconds. */
export function durationMs(value: string): number {
  const duration = parseDurationMs(value);
  if (duration === undefined) throw new UserError('must be a duration such as 5s or 1m30s');
  return duration;
}

/** `key=value`. */
export function keyValue(value: string): readonly [key: string, value: string] {
  const separator = value.indexOf('=');
  if (separator < 1) throw new UserError('must be written key=value');
  return [value.slice(0, separator), value.slice(separator + 1)];
}

/** `host:port`, the host in brackets if it is an IPv6 address; without one, all addresses. */
export function listenAddress(value: string): { readonly host: string; readonly port: number } {
  const [, host = '', digits = ''] = /^(.*):(\d+)$/.exec(value) ?? [];
  const port = Number(digits);
  if (digits === '' || port > 65_535) throw new UserError('must be an address and a port, such as 127.0.0.1:8081');
  return { host: host === '' ? '0.0.0.0' : host.replace(/^\[(.*)\]$/, '$1'), port };
}
