import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodePod } from '../../../src/policy/pod/pod.ts';
import { isSignificantUpdate } from '../../../src/policy/psa/decode.ts';

interface Case {
  readonly name: string;
  readonly old: unknown;
  readonly pod: unknown;
  readonly expected: boolean;
}

const a = { name: 'a', image: 'x' };
const b = { name: 'b', image: 'y' };

const CASES: readonly Case[] = [
  { name: 'nothing at all', old: {}, pod: { spec: null }, expected: false },
  {
    name: 'null, absent and empty lists are the same',
    old: { containers: null },
    pod: { initContainers: [] },
    expected: false,
  },
  { name: 'an image changed', old: { containers: [a] }, pod: { containers: [{ ...a, image: 'z' }] }, expected: true },
  { name: 'an image was added', old: { containers: [{ name: 'a' }] }, pod: { containers: [a] }, expected: true },
  { name: 'no image either way', old: { containers: [null] }, pod: { containers: [{ image: '' }] }, expected: false },
  { name: 'a container was added', old: { containers: [a] }, pod: { containers: [a, b] }, expected: true },
  { name: 'a container was removed', old: { containers: [a, b] }, pod: { containers: [a] }, expected: true },
  {
    name: 'a container was renamed',
    old: { containers: [a] },
    pod: { containers: [{ ...a, name: 'b' }] },
    expected: false,
  },
  { name: 'containers changed places', old: { containers: [a, b] }, pod: { containers: [b, a] }, expected: true },
  { name: 'an init image changed', old: { initContainers: [a] }, pod: { initContainers: [b] }, expected: true },
  {
    name: 'an init container became a container',
    old: { initContainers: [a] },
    pod: { containers: [a] },
    expected: true,
  },
  { name: 'an ephemeral container was added', old: {}, pod: { ephemeralContainers: [a] }, expected: true },
  { name: 'an ephemeral container was removed', old: { ephemeralContainers: [a] }, pod: {}, expected: false },
  {
    name: 'ephemeral containers changed places',
    old: { ephemeralContainers: [a, b] },
    pod: { ephemeralContainers: [b, a] },
    expected: false,
  },
  {
    name: 'an ephemeral image changed',
    old: { ephemeralContainers: [a] },
    pod: { ephemeralContainers: [{ ...a, image: 'z' }] },
    expected: true,
  },
  {
    name: 'an ephemeral container was renamed',
    old: { ephemeralContainers: [a] },
    pod: { ephemeralContainers: [{ ...a, name: 'b' }] },
    expected: true,
  },
  {
    name: 'a security context changed',
    old: { containers: [a] },
    pod: { hostNetwork: true, containers: [{ ...a, securityContext: { privileged: true } }] },
    expected: false,
  },
];

for (const { name, old, pod, expected } of CASES) {
  test(`${name}: ${expected ? 'significant' : 'not significant'}`, () => {
    const [after, before] = [pod, old].map((spec) => decodePod({ spec }).pod);
    assert.ok(after && before);
    assert.equal(isSignificantUpdate(after, before), expected);
  });
}
