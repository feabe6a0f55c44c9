/** What is left of an answer when everything that differs from run to run is taken out. */
import { isObject } from '../../src/kube/types.ts';

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g;
const VERSION = /(resourceVersion\\*":\\*")\d+/g;
const TOKEN_VOLUME = /kube-api-access-[a-z0-9]{5}/g;
const CREDENTIAL = /X509SHA256=[0-9a-f]{64}/g;
const GENERATED = /^gen-[bcdfghjklmnpqrstvwxz2456789]{5}$/;
const AGE = /^\d+[smhdy](\d+[smhd])?$/;
const EXPIRED = /too old resource version: 1 \(\d+\)/g;
/** Only OpenShift's build of the API server adds this one to the token volume. */
const OPENSHIFT = 'openshift-service-ca.crt';

/** A value without what differs from run to run. */
export function comparable(value: unknown): unknown {
  if (typeof value === 'string') return comparableText(value);
  if (Array.isArray(value)) return value.filter((item) => !isOpenShift(item)).map(comparable);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).filter(([name]) => name !== 'storageVersionHash');
  return Object.fromEntries(entries.map(([name, item]) => [name, comparableField(name, item)]));
}

function comparableField(name: string, item: unknown): unknown {
  if (name === 'resourceVersion' || name === 'uid' || name === 'continue')
    return typeof item === 'string' ? name : item;
  return comparable(item);
}

function comparableText(text: string): string {
  return text
    .replaceAll(UUID, 'UUID')
    .replaceAll(TIME, 'TIME')
    .replaceAll(VERSION, '$1VERSION')
    .replaceAll(TOKEN_VOLUME, 'kube-api-access-?????')
    .replace(GENERATED, 'gen-?????')
    .replace(AGE, 'AGE')
    .replaceAll(CREDENTIAL, 'X509SHA256=?')
    .replaceAll(EXPIRED, 'too old resource version: 1 (?)');
}

function isOpenShift(item: unknown): boolean {
  return isObject(item) && isObject(item['configMap']) && item['configMap']['name'] === OPENSHIFT;
}
