/**
 * Generates and reads an installation without a server, which consists of policies in the API server. An annotation on
 * each policy contains the settings from which it was generated. Other commands read this annotation instead of a
 * PortcullisConfiguration.
 */
import { DEFAULTS_KINDS, type DefaultsKind, POLICY_KINDS, type PolicyKind } from '../../api/admission-policies.ts';
import {
  CONFIGURATION_NAME,
  INSTALLATION,
  POLICY_SELECTOR,
  POLICY_SETTINGS_ANNOTATION as ANNOTATION,
} from '../../api/names.ts';
import type { AnyObject, ClusterClient } from '../../cluster/client.ts';
import { decodePolicy } from '../../install/index.ts';
import { deepEqual } from '../../kube/equality.ts';
import { getApiVersion, RESOURCES } from '../../kube/resources.ts';
import { isObject, type JsonObject, type KubeObject, type PortcullisConfiguration } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import {
  generateDefaultsPolicy,
  generateGuardPolicy,
  generatePolicies,
  MIN_DEFAULTS_MINOR,
  type PolicyObject,
} from '../../policy/psa/index.ts';
import { minorVersion, parseVersion, type Version } from '../../policy/pss/index.ts';
import { VERSION } from '../command.ts';
import { kubectl, type ShellCommand } from '../output/shell.ts';

type GeneratedKind = PolicyKind | DefaultsKind;
const KINDS: readonly GeneratedKind[] = [...POLICY_KINDS, ...DEFAULTS_KINDS];

/** Returns the kinds of generated policies and bindings that an API server version serves. */
export function servedKinds(kubernetes: Version): readonly GeneratedKind[] {
  return minorVersion(kubernetes) < MIN_DEFAULTS_MINOR ? POLICY_KINDS : KINDS;
}

/** A generated policy or binding in a cluster. */
export type InstalledPolicy = AnyObject & { readonly kind: GeneratedKind };

/** Reads the generated policies and bindings. Rejects with the errors of `Connection.request`. */
export async function readPolicyObjects(client: ClusterClient): Promise<readonly InstalledPolicy[]> {
  const lists = KINDS.map(async (kind) => {
    const objects = await client.list(RESOURCES[kind], { labels: POLICY_SELECTOR });
    // The kind is set because the items of a list have none.
    return objects.map((object) => ({ ...object, kind }));
  });
  return (await Promise.all(lists)).flat();
}

/**
 * Returns the command that deletes all policies and bindings. The command omits kinds without objects, because API
 * servers may not serve them.
 */
export function deleteAllCommand(policies: readonly InstalledPolicy[]): ShellCommand {
  const kinds = KINDS.filter((kind) => policies.some((policy) => policy.kind === kind));
  return kubectl('delete', kinds.map((kind) => RESOURCES[kind].resource).join(), '-l', POLICY_SELECTOR);
}

/** Returns the command that deletes a policy or a binding. API servers ignore bindings without a policy. */
export function deleteCommand({ kind, metadata: { name } }: InstalledPolicy): ShellCommand {
  return kubectl('delete', RESOURCES[kind].resource, name);
}

/** Settings and versions from which the policies were generated, as stored in the annotation. */
export interface AnnotatedSettings {
  /** Program version. */
  readonly program: string;
  /** API server version. `latest` refers to this version unless the spec sets another version. */
  readonly kubernetes: Version;
  /** PortcullisConfiguration spec fields that policies contain. */
  readonly spec: JsonObject;
}

/**
 * Maximum size of the annotation. API servers limit the annotations of an object to 256 KiB in total, including the
 * annotation in which kubectl stores a copy of the object.
 */
const MAX_SETTINGS_BYTES = 32 * 1024;

/**
 * Generates the policies and bindings of an installation without a server.
 * @throws {UserError} if the settings are invalid or too large, or require newer API servers
 */
export function buildPolicies(spec: JsonObject, kubernetes: Version): readonly PolicyObject<GeneratedKind>[] {
  const settings = decodePolicy({ namespace: INSTALLATION.namespace, policy: spec });
  const content: AnnotatedSettings = { program: VERSION, kubernetes, spec };
  const text = JSON.stringify(content);
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_SETTINGS_BYTES) {
    const limit = `an annotation on the policies can have at most ${MAX_SETTINGS_BYTES}`;
    throw new UserError(
      `the settings have ${bytes} bytes, but ${limit}: exempt fewer users, namespaces or runtime classes`,
    );
  }
  const kubernetesMinor = minorVersion(kubernetes);
  const { defaults, scc, exceptions } = settings;
  if (exceptions.mode !== 'off') {
    throw new UserError(
      `spec.podSecurity.exceptions.mode is ${exceptions.mode}, but policies in the API server do not support exceptions: add --set=podSecurity.exceptions.mode=off`,
    );
  }
  if (defaults.mode === 'apply' && kubernetesMinor < MIN_DEFAULTS_MINOR) {
    throw new UserError(
      `spec.defaults.mode is apply, but its MutatingAdmissionPolicy requires Kubernetes v1.${MIN_DEFAULTS_MINOR} or newer, and the policies are for ${kubernetes}: upgrade the API servers, or add --set=defaults.mode=off`,
    );
  }
  return [
    ...generatePolicies(settings, { modes: 'all', kubernetesMinor }),
    ...generateDefaultsPolicy({ defaults, scc: { ...scc, mode: 'off' } }, 'defaults.psa.portcullis.dev'),
    ...generateGuardPolicy({ ...settings, scc: { ...scc, mode: 'off' } }, 'guard.psa.portcullis.dev'),
  ].map((object) => {
    const annotations = { ...object.metadata.annotations, [ANNOTATION]: text };
    const isBinding = object.kind.endsWith('Binding');
    return isBinding ? object : { ...object, metadata: { ...object.metadata, annotations } };
  });
}

/** Compares the generated objects with the objects in a cluster, to which the API server has added defaults. */
export function comparePolicies(
  expected: readonly PolicyObject<GeneratedKind>[],
  installed: readonly InstalledPolicy[],
) {
  const isSame = (a: InstalledPolicy | PolicyObject<GeneratedKind>, b: InstalledPolicy): boolean =>
    a.kind === b.kind && a.metadata.name === b.metadata.name;
  const find = (object: PolicyObject<GeneratedKind>) => installed.find((policy) => isSame(object, policy));
  const isChanged = (object: PolicyObject<GeneratedKind>): boolean => {
    const live = find(object);
    return live !== undefined && !('spec' in live && deepEqual(live.spec, object.spec));
  };
  return {
    expected,
    missing: expected.filter((object) => !find(object)),
    changed: expected.filter(isChanged),
    /** Objects that were generated from other settings. */
    obsolete: installed.filter((policy) => !expected.some((object) => isSame(object, policy))),
  };
}

/** Returns true for a policy of an installation without a server. */
export function hasSettings({ metadata }: KubeObject): boolean {
  return metadata?.annotations?.[ANNOTATION] !== undefined;
}

/**
 * Returns the settings in the annotations of ValidatingAdmissionPolicies, or `undefined` if there are none. Ignores
 * MutatingAdmissionPolicies, because a policy for removed defaults contains the previous settings until it is deleted.
 * @throws {UserError} if an annotation is invalid, or if the annotations differ
 */
export function readAnnotatedSettings(policies: readonly KubeObject[]): AnnotatedSettings | undefined {
  const validating = policies.filter(({ kind }) => kind !== 'MutatingAdmissionPolicy');
  const texts = [...new Set(validating.flatMap(({ metadata }) => metadata?.annotations?.[ANNOTATION] ?? []))];
  const [text, other] = texts;
  if (text === undefined) return undefined;
  const settings = parse(text);
  const repair = 'apply the complete output of portcullis install --without-server --for-kubernetes with all settings';
  if (settings === undefined) throw new UserError(`annotation ${ANNOTATION} of a policy is invalid: ${repair}`);
  if (other !== undefined) {
    throw new UserError(`the policies have different settings in their annotations ${ANNOTATION}: ${repair}`);
  }
  return settings;
}

function parse(text: string): AnnotatedSettings | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value)) return undefined;
    const { program, kubernetes, spec } = value;
    const version = parseVersion(String(kubernetes));
    const isComplete = typeof program === 'string' && version !== undefined && version !== 'latest' && isObject(spec);
    return isComplete ? { program, kubernetes: version, spec } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns an equivalent configuration, with which other commands evaluate pods as the policies do, without server
 * features.
 */
export function equivalentConfiguration({ kubernetes, spec }: AnnotatedSettings): PortcullisConfiguration {
  const podSecurity = isObject(spec['podSecurity']) ? spec['podSecurity'] : {};
  const { emulationVersion = 'auto' } = podSecurity;
  const latest = emulationVersion === 'auto' ? kubernetes : emulationVersion;
  return {
    apiVersion: getApiVersion('PortcullisConfiguration'),
    kind: 'PortcullisConfiguration',
    metadata: { name: CONFIGURATION_NAME },
    spec: { ...spec, podSecurity: { ...podSecurity, emulationVersion: latest }, scc: { mode: 'off' } },
  };
}

/** Features that an installation without a server lacks. */
export const LACKS = 'no namespace reviews, no metrics, no SCC admission and no enforcement rollout';

/** Source of the policies' settings, for messages. */
export const POLICIES_SOURCE = `annotation ${ANNOTATION} of the policies in the API server. Policies provide ${LACKS}`;
