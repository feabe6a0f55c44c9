import { admissionregistration } from './admissionregistration.ts';
import { apps } from './apps.ts';
import { authentication } from './authentication.ts';
import { authorization } from './authorization.ts';
import { autoscaling } from './autoscaling.ts';
import { batch } from './batch.ts';
import { coordination } from './coordination.ts';
import { core } from './core.ts';
import { events } from './events.ts';
import { meta } from './meta.ts';
import { networking } from './networking.ts';
import { node } from './node.ts';
import { policy } from './policy.ts';
import { rbac } from './rbac.ts';
import { scheduling } from './scheduling.ts';

/** What a number stands for: a field, or a struct whose fields are those of the message itself. */
export type Numbered = { readonly field: string } | { readonly embedded: ReadonlyMap<number, Numbered> };

/** The fields of each message by their numbers; the key is the name of the type in OpenAPI documents. */
export function readNumbers(): ReadonlyMap<string, ReadonlyMap<number, Numbered>> {
  const all = new Map<string, ReadonlyMap<number, Numbered>>();
  read(all, 'io.k8s.apimachinery.pkg.apis.meta.v1', meta);
  for (const [name, text] of Object.entries(PACKAGES)) read(all, `io.k8s.api.${name}.v1`, text);
  return all;
}

const PACKAGES = {
  admissionregistration,
  apps,
  authentication,
  authorization,
  autoscaling,
  batch,
  coordination,
  core,
  events,
  networking,
  node,
  policy,
  rbac,
  scheduling,
};

function read(all: Map<string, ReadonlyMap<number, Numbered>>, prefix: string, text: string): void {
  const lines = text.split('\n').filter((line) => line !== '');
  const messages = new Map(lines.map((line) => [line.split(' ')[0] ?? '', line.split(' ').slice(1)] as const));
  const numbersOf = (message: string): ReadonlyMap<number, Numbered> => {
    const names = messages.get(message) ?? [];
    const numbered = names.map((name, index) => [index + 1, numberedOf(name)] as const);
    return new Map(numbered.filter((entry): entry is [number, Numbered] => entry[1] !== undefined));
  };
  const numberedOf = (name: string): Numbered | undefined => {
    if (name === '-') return undefined;
    return name.startsWith('+') ? { embedded: numbersOf(name.slice(1)) } : { field: name };
  };
  for (const message of messages.keys()) all.set(`${prefix}.${message}`, numbersOf(message));
}
