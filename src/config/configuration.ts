/**
 * The configuration file of the server: a PortcullisConfiguration, or what upstream's own webhook takes, a
 * PodSecurityConfiguration, alone or within an AdmissionConfiguration.
 */
import { isObject } from '../kube/types.ts';
import { DEFAULT_CONFIGURATION } from '../policy/psa/configuration.ts';
import { createPodSecurity, type PodSecurity } from '../policy/psa/pod-security.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../policy/rollout/rollout-settings.ts';
import { parsePodSecurity, podSecurityOf } from './pod-security.ts';
import { readRollout } from './rollout.ts';
import type { Source } from './source.ts';
import { childOf, strictIssues, typeIssues, userError, type ConfigNode, type Issue, type Struct } from './strict.ts';
import { firstDocument, isOfKind, requireKind, type ConfigKind } from './typed-document.ts';

export const PORTCULLIS_CONFIGURATION: ConfigKind = {
  kind: 'PortcullisConfiguration',
  apiVersions: ['config.portcullis.dev/v1alpha1'],
};

const STRUCT: Struct = {
  type: 'PortcullisConfiguration',
  fields: {
    apiVersion: 'string',
    kind: 'string',
    options: 'anything',
    podSecurity: 'anything',
    rollout: 'anything',
    featureGates: 'anything',
  },
};

/** What a configuration file says. */
export interface Configuration {
  readonly podSecurity: PodSecurity;
  readonly rollout: RolloutSettings;
  /** Command line options by their names, each as the texts that one would type; read once, at start. */
  readonly options: ReadonlyMap<string, readonly string[]>;
}

/**
 * Makes the content of a file ready for use; an empty one means the defaults. The options must be among those named.
 * @throws {UserError} that tells, line by line, what is wrong and where
 */
export function parseConfiguration(source: Source, optionNames: readonly string[]): Configuration {
  const root = source.text === '' ? undefined : firstDocument(source);
  if (!root || !isOfKind(root, PORTCULLIS_CONFIGURATION)) {
    return { podSecurity: parsePodSecurity(source), rollout: DEFAULT_ROLLOUT, options: new Map() };
  }
  requireKind(root, [PORTCULLIS_CONFIGURATION]);
  const types = typeIssues(root.value, STRUCT);
  if (types.length > 0) throw userError(root, '', types);
  const strict = strictIssues(root, STRUCT);
  if (strict.length > 0) throw userError(root, 'strict decoding error: ', strict);
  const podSecurity = childOf(root, ['podSecurity']);
  const rollout = readRollout(childOf(root, ['rollout']), childOf(root, ['featureGates']));
  if (rollout.phase !== 'Disabled') forbidDefaults(childOf(podSecurity, ['defaults']), rollout);
  return {
    podSecurity: podSecurity.value == null ? createPodSecurity(DEFAULT_CONFIGURATION) : podSecurityOf(podSecurity),
    rollout,
    options: readOptions(childOf(root, ['options']), optionNames),
  };
}

/** Who rolls enforcement out raises the defaults; what else would set them is a mistake. */
function forbidDefaults(defaults: ConfigNode, { phase }: RolloutSettings): void {
  if (defaults.value == null) return;
  const message = `podSecurity.defaults and rollout.phase ${phase} both say what holds where a namespace has no label: leave one of them out`;
  throw userError(defaults, 'invalid configuration: ', [{ message, path: [] }]);
}

function readOptions(node: ConfigNode, names: readonly string[]): Map<string, readonly string[]> {
  if (node.value == null) return new Map();
  if (!isObject(node.value)) throw userError(node, '', [{ message: 'must be an object of option names', path: [] }]);
  const issues: Issue[] = [];
  const options = new Map<string, readonly string[]>();
  for (const [name, value] of Object.entries(node.value)) {
    const items: readonly unknown[] = Array.isArray(value) ? value : [value];
    if (!names.includes(name)) issues.push({ message: `unknown option "${name}"`, path: [name] });
    else if (items.every(isScalar)) options.set(name, items.map(String));
    else issues.push({ message: 'must be a text, a number, true, false, or a list of these', path: [name] });
  }
  if (issues.length > 0) throw userError(node, '', issues);
  return options;
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}
