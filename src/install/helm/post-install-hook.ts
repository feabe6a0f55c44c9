import { printYaml } from '../../config/manifests.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../../kube/psa-enforcement-config.ts';
import { apiVersionOf } from '../../kube/resources.ts';
import { clusterMetadata } from '../metadata.ts';
import { print, toTemplate } from './slots.ts';

/**
 * What a first installation asks for. It is no part of the release: its definition is, which Helm would have to know
 * before; and later it is the administrator's.
 */
export function postInstallHook(): string {
  const object = {
    apiVersion: apiVersionOf('PSAEnforcementConfig'),
    kind: 'PSAEnforcementConfig',
    metadata: { ...clusterMetadata(PSA_ENFORCEMENT_CONFIG), annotations: { 'helm.sh/hook': 'post-install' } },
    spec: { enforcementMode: print('.Values.enforcementMode') },
  };
  return `{{- if .Values.enforcementMode }}\n${toTemplate(printYaml([object]))}{{- end }}\n`;
}
