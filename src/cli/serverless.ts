/**
 * An installation without a server: policies in the API server. Each policy has the settings that it was generated from
 * as an annotation, which other commands read in place of a PortcullisConfiguration.
 */
import type { Scope } from '../cluster/live-cluster.ts';
import { UserError } from '../config/files.ts';
import { settingAt } from '../config/setting-paths.ts';
import { decodePolicy } from '../install/index.ts';
import { getApiVersion, RESOURCES } from '../kube/resources.ts';
import { isObject, type JsonObject, type KubeObject, type PortcullisConfiguration } from '../kube/types.ts';
import {
  CONFIGURATION_NAME,
  INSTALLATION,
  POLICY_LABELS,
  POLICY_SETTINGS_ANNOTATION as ANNOTATION,
} from '../kube/well-known.ts';
import { generatePolicies, type PolicyObject } from '../policy/psa/admission-policies.ts';
import { MODES } from '../policy/psa/policy.ts';
import { parseVersion, type Version } from '../policy/pss/policy.ts';
import { VERSION } from './command.ts';
import type { AnyObject } from './installation.ts';

export const POLICIES = RESOURCES.ValidatingAdmissionPolicy;
export const POLICY_BINDINGS = RESOURCES.ValidatingAdmissionPolicyBinding;

/** The selector of the generated policies and bindings. */
export const POLICY_SELECTOR = Object.entries(POLICY_LABELS)
  .map((label) => label.join('='))
  .join(',');

/** The policies among the objects of a cluster. */
export const POLICY_SCOPE: Scope = { kind: 'ValidatingAdmissionPolicy', labelSelector: POLICY_SELECTOR };

/** Deletes the policies. Bindings without a policy have no effect. */
export const DELETE_POLICIES = `kubectl delete ${POLICIES.resource},${POLICY_BINDINGS.resource} -l ${POLICY_SELECTOR}`;

/** The command that deletes a policy or a binding. */
export function deleteCommand({ metadata: { name }, spec }: AnyObject & { readonly spec?: unknown }): string {
  const isPolicyBinding = settingAt({ spec }, ['spec', 'policyName']) !== undefined;
  return `kubectl delete ${(isPolicyBinding ? POLICY_BINDINGS : POLICIES).resource} ${name}`;
}

/** What the policies were generated from: the content of the annotation. */
export interface ServerlessSettings {
  /** The version of the program. */
  readonly program: string;
  /** The version of the API server, which `latest` means unless the spec sets another one. */
  readonly kubernetes: Version;
  /** The fields of the spec of a PortcullisConfiguration that policies contain. */
  readonly spec: JsonObject;
}

/** The limit of the annotation. All annotations of an object have at most 256 KiB, with the copy that kubectl adds. */
const MAX_SETTINGS_BYTES = 32 * 1024;

/**
 * Generates the policies and bindings of an installation without a server.
 * @throws {UserError} if the settings are invalid or too large
 */
export function serverlessPolicies(spec: JsonObject, kubernetes: Version): readonly PolicyObject[] {
  const settings = decodePolicy({ namespace: INSTALLATION.namespace, policy: spec });
  const content: ServerlessSettings = { program: VERSION, kubernetes, spec };
  const text = JSON.stringify(content);
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_SETTINGS_BYTES) {
    const limit = `an annotation of the policies has at most ${MAX_SETTINGS_BYTES}`;
    throw new UserError(`the settings have ${bytes} bytes, and ${limit}: exempt fewer users, namespaces or classes`);
  }
  const kubernetesMinor = Number(kubernetes.slice('v1.'.length));
  const options = { modes: MODES, kubernetesMinor, isStatic: false };
  return generatePolicies(settings, options).map((object) => {
    const annotations = { ...object.metadata.annotations, [ANNOTATION]: text };
    return isBinding(object) ? object : { ...object, metadata: { ...object.metadata, annotations } };
  });
}

function isBinding({ kind }: KubeObject): boolean {
  return kind === 'ValidatingAdmissionPolicyBinding';
}

/** True for a policy of an installation without a server. */
export function hasSettings({ metadata }: KubeObject): boolean {
  return metadata?.annotations?.[ANNOTATION] !== undefined;
}

/**
 * Returns the settings in the annotations of policies; `undefined` if there are none.
 * @throws {UserError} if an annotation is invalid, or if they differ
 */
export function readServerless(policies: readonly KubeObject[]): ServerlessSettings | undefined {
  const texts = [...new Set(policies.flatMap(({ metadata }) => metadata?.annotations?.[ANNOTATION] ?? []))];
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

function parse(text: string): ServerlessSettings | undefined {
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

/** The configuration with which other commands evaluate as the policies do, and without what only a server does. */
export function serverlessConfiguration({ kubernetes, spec }: ServerlessSettings): PortcullisConfiguration {
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

/** What such an installation lacks. */
export const LACKS = 'no review of namespaces, no metrics, no SCC admission and no rollout of enforcement';

/** The source of the settings of policies, for messages. */
export const SERVERLESS_SOURCE = `annotation ${ANNOTATION} of the policies in the API server. There is no server: ${LACKS}`;
