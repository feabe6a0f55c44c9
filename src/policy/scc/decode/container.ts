import type { CONTAINER_LISTS } from '../../../kube/pod.ts';
import { SECCOMP_CONTAINER_ANNOTATION_PREFIX } from '../../../kube/scc.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { pathTo, placeOf } from './paths.ts';
import {
  booleanAt,
  checkFields,
  elementAt,
  integerAt,
  listAt,
  NOTHING,
  objectAt,
  stringAt,
  stringsAt,
  type Reader,
} from './reader.ts';
import { readSeccompProfile, readSeLinuxOptions, type SharedFields } from './security-context.ts';

export interface Capabilities {
  readonly add: readonly string[];
  readonly drop: readonly string[];
}

/** What decisions read of a container; its own values, not those of the pod. */
export interface ContainerFields extends SharedFields {
  readonly list: (typeof CONTAINER_LISTS)[number];
  /** In its list. */
  readonly index: number;
  /** `containers[0]`. */
  readonly place: string;
  /** `.containers[0]`, as in messages. */
  readonly path: string;
  readonly name: string;
  readonly privileged: boolean;
  readonly capabilities: Capabilities | undefined;
  readonly readOnlyRootFilesystem: boolean | undefined;
  readonly allowPrivilegeEscalation: boolean | undefined;
  /** Of the ports that have one. */
  readonly hostPorts: readonly number[];
  /** The value of the pod's annotation for this container, which may be empty. */
  readonly seccompAnnotation: string | undefined;
}

/** Where a container stands, and the annotations of its pod. */
interface Place {
  readonly list: ContainerFields['list'];
  readonly index: number;
  readonly annotations: Readonly<Record<string, string>>;
}

const NO_PORTS: readonly number[] = [];

export function readContainer(reader: Reader, json: JsonObject, { list, index, annotations }: Place): ContainerFields {
  const place = placeOf(list, index);
  const specPath = pathTo('spec', place);
  const context = objectAt(reader, json, 'securityContext', specPath) ?? NOTHING;
  const contextPath = pathTo(specPath, 'securityContext');
  const name = stringAt(reader, json, 'name', specPath);
  checkFields(reader, json, specPath);
  checkFields(reader, context, contextPath);
  return {
    list,
    index,
    place,
    path: pathTo('', place),
    name,
    runAsUser: integerAt(reader, context, 'runAsUser', contextPath),
    runAsNonRoot: booleanAt(reader, context, 'runAsNonRoot', contextPath),
    seLinuxOptions: readSeLinuxOptions(reader, context, contextPath),
    seccompProfile: readSeccompProfile(reader, context, contextPath),
    privileged: booleanAt(reader, context, 'privileged', contextPath) ?? false,
    capabilities: readCapabilities(reader, context, contextPath),
    readOnlyRootFilesystem: booleanAt(reader, context, 'readOnlyRootFilesystem', contextPath),
    allowPrivilegeEscalation: booleanAt(reader, context, 'allowPrivilegeEscalation', contextPath),
    hostPorts: readHostPorts(reader, json, specPath),
    seccompAnnotation: annotations[SECCOMP_CONTAINER_ANNOTATION_PREFIX + name],
  };
}

function readCapabilities(reader: Reader, context: JsonObject, path: string): Capabilities | undefined {
  const capabilities = objectAt(reader, context, 'capabilities', path);
  if (capabilities === undefined) return undefined;
  const own = pathTo(path, 'capabilities');
  return { add: stringsAt(reader, capabilities, 'add', own), drop: stringsAt(reader, capabilities, 'drop', own) };
}

function readHostPorts(reader: Reader, json: JsonObject, path: string): readonly number[] {
  const ports = listAt(reader, json, 'ports', path);
  if (ports.length === 0) return NO_PORTS;
  const hostPorts: number[] = [];
  for (let index = 0; index < ports.length; index++) {
    const port = elementAt(reader, ports, index, `${path}.ports`);
    const hostPort = integerAt(reader, port, 'hostPort', `${path}.ports`) ?? 0;
    if (hostPort > 0) hostPorts.push(hostPort);
  }
  return hostPorts;
}
